// Checks a log with other people's programs, none of them changed: tessera's fsck reads every tile and entry, golang.org/x/mod
// opens the checkpoint, proves the log's growth from a smaller size out of its tiles, and checks a record.
//
//	interop URL VKEY FROM_SIZE FROM_ROOT_HEX PROOF_FILE LEAF_HEX
package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run(base, vkey, fromSize, fromRoot, proofFile, leafHex string) error {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return fmt.Errorf("vkey: %w", err)
	}
	text, err := fetch(base, "checkpoint")
	if err != nil {
		return err
	}
	size, root, err := readCheckpoint(text, verifier)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := checkFiles(base, verifier); err != nil {
		return fmt.Errorf("fsck: %w", err)
	}
	if err := checkGrowth(base, size, root, fromSize, fromRoot); err != nil {
		return fmt.Errorf("growth: %w", err)
	}
	return checkProof(proofFile, leafHex, verifier)
}

func readCheckpoint(text []byte, verifier note.Verifier) (int64, tlog.Hash, error) {
	opened, err := note.Open(text, note.VerifierList(verifier))
	if err != nil {
		return 0, tlog.Hash{}, err
	}
	lines := strings.Split(opened.Text, "\n")
	if lines[0] != verifier.Name() {
		return 0, tlog.Hash{}, fmt.Errorf("origin %q", lines[0])
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return 0, tlog.Hash{}, err
	}
	root, err := tlog.ParseHash(lines[2])
	return size, root, err
}

func checkFiles(base string, verifier note.Verifier) error {
	place, err := url.Parse(base + "/")
	if err != nil {
		return err
	}
	source, err := client.NewHTTPFetcher(place, nil)
	if err != nil {
		return err
	}
	hashEntries := func(bundle []byte) ([][]byte, error) {
		entries := &api.EntryBundle{}
		if err := entries.UnmarshalText(bundle); err != nil {
			return nil, err
		}
		var leaves [][]byte
		for _, entry := range entries.Entries {
			leaves = append(leaves, rfc6962.DefaultHasher.HashLeaf(entry))
		}
		return leaves, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return fsck.New(verifier.Name(), verifier, source, hashEntries, fsck.Opts{N: 2}).Check(ctx)
}

// tiles reads tiles of x/mod's form, whose height is always 8 here.
type tiles struct{ base string }

func (t tiles) Height() int                     { return 8 }
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, tile := range wanted {
		// x/mod has the height in its paths, the specification has not.
		data, err := fetch(t.base, strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}
	return found, nil
}

func checkGrowth(base string, size int64, root tlog.Hash, fromSize, fromRoot string) error {
	from, err := strconv.ParseInt(fromSize, 10, 64)
	if err != nil {
		return err
	}
	older, err := hex.DecodeString(fromRoot)
	if err != nil {
		return err
	}
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles{base})
	proof, err := tlog.ProveTree(size, from, reader)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, size, root, from, tlog.Hash(older))
}

func checkProof(file, leafHex string, verifier note.Verifier) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, checkpoint, _ := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if lines[0] != "c2sp.org/tlog-proof@v1" {
		return fmt.Errorf("proof begins with %q", lines[0])
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return err
	}
	var path tlog.RecordProof
	for _, line := range lines[2:] {
		hash, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return err
		}
		path = append(path, tlog.Hash(hash))
	}
	size, root, err := readCheckpoint([]byte(checkpoint), verifier)
	if err != nil {
		return fmt.Errorf("the proof's checkpoint: %w", err)
	}
	leaf, err := hex.DecodeString(leafHex)
	if err != nil {
		return err
	}
	return tlog.CheckRecord(path, size, root, index, tlog.Hash(leaf))
}

func fetch(base, path string) ([]byte, error) {
	answer, err := http.Get(base + "/" + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, answer.Status, data)
	}
	return data, err
}
