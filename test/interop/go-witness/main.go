// A witness of transparency-dev/witness as it comes, with its handler on one address and one log.
//
//	witness ADDRESS LOG_VKEY WITNESS_NAME
//
// It prints its own vkey once it listens.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, logVkey, name string) error {
	log, err := note.NewVerifier(logVkey)
	if err != nil {
		return err
	}
	secret, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return err
	}
	vkey, err := fnote.VKeyToCosignatureV1(public)
	if err != nil {
		return err
	}
	signer, err := fnote.NewSignerForCosignatureV1(secret)
	if err != nil {
		return err
	}
	w, err := witness.New(context.Background(), witness.Opts{
		Persistence: inmemory.New(),
		Signers:     []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return log, origin == log.Name(), nil
		},
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("%s http://%s\n", vkey, listener.Addr())
	return http.Serve(listener, mux)
}
