// One end of TLS 1.3 by Go's own crypto/tls, for the certificate `cert.pem` and the key `key.pem` of localhost:
//
//	peer serve PORT [GROUP]...    answers with the name of the negotiated group
//	peer fetch PORT [GROUP]...    prints the name of the negotiated group, and the page /answer
//
// A GROUP is a number of IANA's. Without one, Go's defaults apply.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
)

func main() {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	for _, group := range os.Args[3:] {
		number, err := strconv.ParseUint(group, 10, 16)
		must(err)
		config.CurvePreferences = append(config.CurvePreferences, tls.CurveID(number))
	}
	if os.Args[1] == "serve" {
		answer := func(to http.ResponseWriter, request *http.Request) {
			fmt.Fprint(to, request.TLS.CurveID)
		}
		server := http.Server{Addr: "127.0.0.1:" + os.Args[2], TLSConfig: config, Handler: http.HandlerFunc(answer)}
		must(server.ListenAndServeTLS("cert.pem", "key.pem"))
	}
	certificate, err := os.ReadFile("cert.pem")
	must(err)
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(certificate)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	response, err := client.Get("https://localhost:" + os.Args[2] + "/answer")
	must(err)
	page, err := io.ReadAll(response.Body)
	must(err)
	fmt.Printf("%v\n%s", response.TLS.CurveID, page)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
