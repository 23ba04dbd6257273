// The gateway of apps/relay.ru on Go's own server and client: relay PORT
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	upstream := "http://127.0.0.1:" + os.Getenv("UPSTREAM")
	http.HandleFunc("/ready", func(response http.ResponseWriter, _ *http.Request) {
		response.Write([]byte("ready"))
	})
	http.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		stream, err := http.Get(upstream + request.URL.Path)
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadGateway)
			return
		}
		defer stream.Body.Close()
		response.Header().Set("Content-Type", "text/event-stream")
		response.Header().Set("Cache-Control", "no-cache")
		buffer := make([]byte, 4096)
		for {
			count, err := stream.Body.Read(buffer)
			response.Write(buffer[:count])
			response.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
