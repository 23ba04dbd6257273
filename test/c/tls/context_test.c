/* Contexts: what they refuse and how they say it, and what they tell of their certificates. */
#include "tls/context.h"

#include "tls/peer.h"

/* The problem with these options at this time; the context if there is none. */
static ab_tls_context *try(const ab_tls_options *options, int64_t now, ab_tls_problem *problem) {
  ab_tls_context *context = ab_tls_context_new(&ab_mem_libc, options, now, problem);
  CHECK(context || problem->text[0] != 0);
  CHECK_INT(0, ERR_peek_error());
  return context;
}

static void check_refused(const ab_tls_options *options, int64_t now, const char *sentence) {
  ab_tls_problem problem;
  ab_tls_context *context = try(options, now, &problem);
  CHECK(!context);
  CHECK_BYTES(sentence, problem.text, strlen(problem.text));
  ab_tls_context_release(context);
}

static void check_accepted(const ab_tls_options *options, int64_t now) {
  ab_tls_problem problem;
  ab_tls_context *context = try(options, now, &problem);
  CHECK(context != NULL);
  if (!context) fprintf(stderr, "%s\n", problem.text);
  ab_tls_context_release(context);
}

CHECK_CASE(the_library_is_named) {
  CHECK(strncmp(ab_tls_library(), "OpenSSL 3", 9) == 0);
}

CHECK_CASE(a_certificate_and_its_key_must_be_there) {
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order);
  ab_tls_identity source = one.source;
  ab_tls_options options = options_of(&source, 0);
  check_refused(&options, PKI_NOW, "there is no certificate");
  options.identity_count = 1;
  check_accepted(&options, PKI_NOW);
  source.chain_len = 0;
  check_refused(&options, PKI_NOW, "a.pem: there is no certificate in it (PEM)");
  source.chain = one.source.key;
  source.chain_len = one.source.key_len;
  check_refused(&options, PKI_NOW, "a.pem: there is no certificate in it (PEM)");
  source = one.source;
  source.chain_len /= 2;
  check_refused(&options, PKI_NOW, "a.pem: bad end line");
  source = one.source;
  source.key = one.source.chain;
  source.key_len = one.source.chain_len;
  check_refused(&options, PKI_NOW, "a.pem: there is no private key for it (PEM)");
  source.key_len = 0;
  check_refused(&options, PKI_NOW, "a.pem: there is no private key for it (PEM)");
  pki_identity_free(&one);
}

CHECK_CASE(damaged_texts_are_refused) {
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order);
  ab_tls_identity source = one.source;
  ab_tls_options options = options_of(&source, 1);
  for (size_t at = 30; at < one.source.chain_len; at += 16) {
    char *text = strdup(one.source.chain);
    text[at] = text[at] == '!' ? '?' : '!';
    source.chain = text;
    ab_tls_problem problem;
    ab_tls_context *context = try(&options, PKI_NOW, &problem);
    CHECK(!context && strncmp(problem.text, "a.pem: ", 7) == 0);
    free(text);
  }
  source = one.source;
  for (size_t at = 30; at < one.source.key_len; at += 16) {
    char *text = strdup(one.source.key);
    text[at] = '!';
    source.key = text;
    ab_tls_problem problem;
    ab_tls_context *context = try(&options, PKI_NOW, &problem);
    CHECK(!context && strncmp(problem.text, "a.pem: ", 7) == 0);
    free(text);
  }
  pki_identity_free(&one);
}

CHECK_CASE(key_and_certificate_must_be_a_pair) {
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_order rsa = {.subject = "b.pem", .names = "DNS:a.example", .kind = "RSA"};
  pki_identity one = pki_identity_of(&order), two = pki_identity_of(&order),
               three = pki_identity_of(&rsa);
  ab_tls_identity source = one.source;
  ab_tls_options options = options_of(&source, 1);
  source.key = two.source.key;
  source.key_len = two.source.key_len;
  check_refused(&options, PKI_NOW, "a.pem: the key is another certificate's");
  source.key = three.source.key;
  source.key_len = three.source.key_len;
  check_refused(&options, PKI_NOW, "a.pem: the key is another certificate's");
  pki_identity_free(&one);
  pki_identity_free(&two);
  pki_identity_free(&three);
}

CHECK_CASE(encrypted_keys_need_their_password) {
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order);
  char *key = pki_key_text(&one.pair, "correct horse");
  ab_tls_identity source = one.source;
  ab_tls_options options = options_of(&source, 1);
  source.key = key;
  source.key_len = strlen(key);
  check_refused(&options, PKI_NOW, "a.pem: its key is encrypted, and no password is given");
  source.password = "battery staple";
  check_refused(&options, PKI_NOW, "a.pem: its key cannot be decrypted with the password");
  source.password = "";
  check_refused(&options, PKI_NOW, "a.pem: its key cannot be decrypted with the password");
  source.password = "correct horse";
  check_accepted(&options, PKI_NOW);
  /* As older programs write them. */
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey_traditional(bio, one.pair.key, EVP_aes_128_cbc(),
                                       (const unsigned char *)"old", 3, NULL, NULL);
  char *old = pki_text(bio);
  source.key = old;
  source.key_len = strlen(old);
  check_refused(&options, PKI_NOW, "a.pem: its key cannot be decrypted with the password");
  source.password = NULL;
  check_refused(&options, PKI_NOW, "a.pem: its key is encrypted, and no password is given");
  source.password = "old";
  check_accepted(&options, PKI_NOW);
  free(old);
  free(key);
  pki_identity_free(&one);
}

/* As `openssl ecparam -genkey` writes it, and with the certificate in the same text. */
CHECK_CASE(other_parts_of_a_text_are_passed_over) {
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order);
  const char *parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"
                           "-----END EC PARAMETERS-----\n";
  char *text = malloc(strlen(parameters) + one.source.key_len + one.source.chain_len + 100);
  sprintf(text, "# a comment\n%s%s%s\n# the end\n", parameters, one.source.key, one.source.chain);
  ab_tls_identity source = one.source;
  ab_tls_options options = options_of(&source, 1);
  source.key = source.chain = text;
  source.key_len = source.chain_len = strlen(text);
  check_accepted(&options, PKI_NOW);
  free(text);
  pki_identity_free(&one);
}

CHECK_CASE(dates_are_checked) {
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example", .before = -1, .after = 1};
  pki_identity one = pki_identity_of(&order);
  ab_tls_options options = options_of(&one.source, 1);
  check_accepted(&options, PKI_NOW - 86400);
  check_accepted(&options, PKI_NOW + 86400);
  check_refused(&options, PKI_NOW + 86401,
                "a.pem: the certificate has expired at 2023-11-15 22:13:20 UTC");
  check_refused(&options, PKI_NOW - 86401,
                "a.pem: the certificate is not valid before 2023-11-13 22:13:20 UTC");
  check_accepted(&options, 0);
  pki_identity_free(&one);
}

CHECK_CASE(what_follows_the_certificate_must_have_issued_it) {
  pki_order root_order = {.subject = "root", .authority = true};
  pki_pair root = pki_make(&root_order), stranger = pki_make(&root_order);
  pki_order middle_order = {.subject = "middle", .authority = true, .issuer = &root};
  pki_pair middle = pki_make(&middle_order);
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example", .issuer = &middle};
  pki_identity one = pki_identity_of(&order);
  ab_tls_identity source = one.source;
  ab_tls_options options = options_of(&source, 1);
  check_accepted(&options, PKI_NOW);
  char *rest = pki_chain_text(&root, NULL), *wrong = pki_chain_text(&stranger, NULL);
  char *whole = malloc(one.source.chain_len + strlen(rest) + strlen(wrong) + 1);
  sprintf(whole, "%s%s", one.source.chain, rest);
  source.chain = whole;
  source.chain_len = strlen(whole);
  check_accepted(&options, PKI_NOW); /* the root too */
  sprintf(whole, "%s%s", one.source.chain, wrong);
  source.chain_len = strlen(whole);
  check_refused(&options, PKI_NOW, "a.pem: certificate 3 of the chain has issued none before it");
  free(whole);
  pki_pair only = one.pair;
  whole = pki_chain_text(&only, &root);
  source.chain = whole;
  source.chain_len = strlen(whole);
  check_refused(&options, PKI_NOW, "a.pem: certificate 2 of the chain has issued none before it");
  free(whole);
  free(rest);
  free(wrong);
  pki_identity_free(&one);
  pki_free(&root);
  pki_free(&middle);
  pki_free(&stranger);
}

CHECK_CASE(weak_keys_unknown_ciphers_and_versions_are_refused) {
  pki_order weak = {.subject = "weak.pem", .names = "DNS:a.example", .kind = "RSA1024"};
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order), two = pki_identity_of(&weak);
  ab_tls_options options = options_of(&two.source, 1);
  check_refused(&options, PKI_NOW, "weak.pem: ee key too small");
  options.identities = &one.source;
  options.ciphers = "NO-SUCH-CIPHER";
  check_refused(&options, PKI_NOW, "ssl_cipher_filter: no cipher match");
  options.ciphers = "HIGH:!aNULL@STRENGTH";
  check_accepted(&options, PKI_NOW);
  options.ciphersuites = "TLS_NO_SUCH_SUITE";
  check_refused(&options, PKI_NOW, "ssl_ciphersuites: no cipher match");
  options.ciphersuites = "TLS_AES_256_GCM_SHA384";
  check_accepted(&options, PKI_NOW);
  options.min_version = 0x0304;
  options.max_version = 0x0303;
  check_refused(&options, PKI_NOW, "there is no version of TLS from 0x0304 to 0x0303");
  options.min_version = options.max_version = 0x0999;
  check_refused(&options, PKI_NOW, "there is no version of TLS from 0x0999 to 0x0999");
  options.min_version = options.max_version = 0x0304;
  check_accepted(&options, PKI_NOW);
  pki_identity_free(&one);
  pki_identity_free(&two);
}

CHECK_CASE(who_verifies_needs_authorities) {
  pki_order root_order = {.subject = "root", .authority = true};
  pki_pair root = pki_make(&root_order);
  pki_order order = {.subject = "a.pem", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order);
  ab_tls_options options = options_of(&one.source, 1);
  options.verify = AB_TLS_VERIFY_PEER;
  check_refused(&options, PKI_NOW,
                "to verify clients, it needs to know who issues their certificates (ca)");
  options.ca = "nothing";
  options.ca_len = 7;
  check_refused(&options, PKI_NOW, "ca: there is no certificate in it (PEM)");
  char *ca = pki_chain_text(&root, &root), *crl = pki_revoked_text(&root, NULL);
  options.ca = ca;
  options.ca_len = strlen(ca);
  check_accepted(&options, PKI_NOW);
  options.crl = "nothing";
  options.crl_len = 7;
  check_refused(&options, PKI_NOW, "crl: there is no list of revoked certificates in it (PEM)");
  options.crl = crl;
  options.crl_len = strlen(crl);
  check_accepted(&options, PKI_NOW);
  options.crl_len /= 2;
  check_refused(&options, PKI_NOW, "crl: bad end line");
  free(ca);
  free(crl);
  pki_free(&root);
  pki_identity_free(&one);
}

CHECK_CASE(a_context_tells_of_its_certificates) {
  pki_order order = {.subject = "a.example",
                     .names = "DNS:A.Example, DNS:*.b.example, IP:192.0.2.1, IP:2001:db8::1, "
                              "email:x@y.example",
                     .before = -1,
                     .after = 90,
                     .serial = 0xabc};
  pki_order other = {.subject = "common.example", .kind = "RSA"};
  pki_identity one = pki_identity_of(&order), two = pki_identity_of(&other);
  ab_tls_identity sources[] = {one.source, two.source};
  sources[0].label = "a.pem";
  ab_tls_options options = options_of(sources, 2);
  ab_tls_context *context = context_of(&options);
  CHECK_INT(2, ab_tls_context_certificates(context));
  const ab_tls_certificate *facts = ab_tls_context_certificate(context, 0);
  CHECK_BYTES("a.pem", facts->label, strlen(facts->label));
  CHECK_BYTES("CN=a.example", facts->subject, strlen(facts->subject));
  CHECK_BYTES("0abc", facts->serial, strlen(facts->serial));
  CHECK_BYTES("ECDSA 256", facts->key, strlen(facts->key));
  CHECK_INT(PKI_NOW - 86400, facts->not_before);
  CHECK_INT(PKI_NOW + 90 * 86400, facts->not_after);
  const char *names[] = {"a.example", "*.b.example", "192.0.2.1", "2001:db8::1"};
  CHECK_INT(4, facts->name_count);
  for (size_t i = 0; i < 4; i++) CHECK_BYTES(names[i], facts->names[i], strlen(facts->names[i]));
  facts = ab_tls_context_certificate(context, 1);
  CHECK_BYTES("RSA 2048", facts->key, strlen(facts->key));
  CHECK_INT(1, facts->name_count); /* the common name, where there is no other */
  CHECK_BYTES("common.example", facts->names[0], strlen(facts->names[0]));
  CHECK(!ab_tls_context_certificate(context, 2));
  CHECK(ab_tls_context_has_name(context, "a.example", 9));
  CHECK(ab_tls_context_has_name(context, "x.b.example", 11));
  CHECK(!ab_tls_context_has_name(context, "x.y.b.example", 13));
  CHECK(!ab_tls_context_has_name(context, ".b.example", 10));
  CHECK(!ab_tls_context_has_name(context, "b.example", 9));
  CHECK(!ab_tls_context_has_name(context, "", 0));
  CHECK(ab_tls_context_has_name(context, "common.example", 14));
  CHECK(ab_tls_context_hold(context) == context);
  ab_tls_context_release(context);
  CHECK_INT(2, ab_tls_context_certificates(context));
  ab_tls_context_release(context);
  pki_identity_free(&one);
  pki_identity_free(&two);
}

/* A long label is cut, and nothing else happens. */
CHECK_CASE(a_problem_fits_its_place) {
  pki_order order = {.subject = "a", .names = "DNS:a.example"};
  pki_identity one = pki_identity_of(&order);
  char label[1000];
  memset(label, 'x', sizeof label);
  label[999] = 0;
  ab_tls_identity source = one.source;
  source.label = label;
  source.key_len = 0;
  ab_tls_options options = options_of(&source, 1);
  ab_tls_problem problem;
  CHECK(!try(&options, PKI_NOW, &problem));
  CHECK_INT(sizeof problem.text - 1, strlen(problem.text));
  pki_identity_free(&one);
}

CHECK_MAIN()
