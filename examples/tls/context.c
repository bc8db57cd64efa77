/* SPDX-License-Identifier: MIT */
/* A server's certificate, made in memory, and what both ends ask of TLS. */
#include "link.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#define VALID_S (24 * 60 * 60)

/* Signed by its own key; NULL on failure. */
static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
    const unsigned char *host = (const unsigned char *)"tlsline";

    if (name && X509_set_version(cert, X509_VERSION_3) &&
        ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) &&
        X509_gmtime_adj(X509_getm_notBefore(cert), 0) &&
        X509_gmtime_adj(X509_getm_notAfter(cert), VALID_S) && X509_set_pubkey(cert, key) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0) &&
        X509_set_issuer_name(cert, name) && X509_sign(cert, key, EVP_sha256()))
        return cert;
    X509_free(cert);
    return NULL;
}

static bool use_own_certificate(SSL_CTX *context)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? make_certificate(key) : NULL;
    bool used = cert && SSL_CTX_use_certificate(context, cert) == 1 &&
                SSL_CTX_use_PrivateKey(context, key) == 1;

    X509_free(cert);
    EVP_PKEY_free(key);
    return used;
}

/*
 * Ciphers of which each record has the same overhead, and no padding. No tickets: they would go
 * out beside the first line.
 *
 * The client takes any certificate, as this is an example of measuring. A program of use verifies
 * it (SSL_CTX_set_verify(), SSL_set1_host()), or whoever is in between can make up the result,
 * too.
 */
SSL_CTX *link_context(bool is_server)
{
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());

    if (!context)
        return NULL;
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
        (is_server &&
         (SSL_CTX_set_num_tickets(context, 0) != 1 || !use_own_certificate(context)))) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}
