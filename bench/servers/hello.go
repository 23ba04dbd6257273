// The same answer from Go's own server: hello PORT BODY_SIZE [CERTIFICATE KEY]. With a certificate
// it speaks HTTP/2 to clients that can. The body of a POST is read before.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	body := []byte("Hello World\n")
	if size != len(body) {
		body = []byte(strings.Repeat("x", size))
	}
	http.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodPost {
			io.Copy(io.Discard, request.Body)
		}
		head := response.Header()
		head.Set("Content-Type", "text/plain")
		head.Set("Content-Length", os.Args[2])
		response.Write(body)
	})
	place := "127.0.0.1:" + os.Args[1]
	if len(os.Args) > 4 {
		log.Fatal(http.ListenAndServeTLS(place, os.Args[3], os.Args[4], nil))
	}
	log.Fatal(http.ListenAndServe(place, nil))
}
