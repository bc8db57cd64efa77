// SPDX-License-Identifier: MIT

// SFTP with golang.org/x/crypto/ssh and github.com/pkg/sftp at the speed of the path.
//
//	go run . [--stock] [--bdp BYTES] [--key FILE] [--accept-any-host] get|put USER@HOST:REMOTE LOCAL
//
// A channel has a window of 2 MiB, which no parameter changes: 168 Mbit/s over 100 ms. So the file goes over as many channels
// of one connection as hold twice what "autobuf explain" says that the path holds.
package main

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

const (
	channelBytes = 2 << 20
	blockBytes   = 32 << 10 // what every server takes in a request
	mostChannels = 10       // sshd_config(5): MaxSessions
)

// bdpBytes is what the path holds; 0: not known.
func bdpBytes(host string) int64 {
	var told struct {
		Rx int64 `json:"rx_bdp_bytes"`
		Tx int64 `json:"tx_bdp_bytes"`
	}
	said, _ := exec.Command("autobuf", "explain", "--json", host).Output()
	json.Unmarshal(said, &told)
	if told.Tx > told.Rx {
		return told.Tx
	}
	return told.Rx
}

// checkHost asks the server for a key of a kind that known_hosts has, and compares it.
func checkHost(config *ssh.ClientConfig, file, address string) error {
	known, err := knownhosts.New(file)
	if err != nil {
		return err
	}
	config.HostKeyCallback = known
	none, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return err
	}
	var unlike *knownhosts.KeyError
	if errors.As(known(address, &net.TCPAddr{}, none), &unlike) {
		for _, key := range unlike.Want {
			kinds := []string{key.Key.Type()}
			if kinds[0] == ssh.KeyAlgoRSA {
				kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
			}
			config.HostKeyAlgorithms = append(config.HostKeyAlgorithms, kinds...)
		}
	}
	return nil
}

func connect(user, host, key string, acceptAny bool) (*ssh.Client, error) {
	folder := filepath.Join(os.Getenv("HOME"), ".ssh")
	if key == "" {
		key = filepath.Join(folder, "id_ed25519")
	}
	pem, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(host, "22")
	config := &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	if !acceptAny {
		if err := checkHost(config, filepath.Join(folder, "known_hosts"), address); err != nil {
			return nil, err
		}
	}
	return ssh.Dial("tcp", address, config)
}

// copying is a file of which each request takes the next block.
type copying struct {
	near   *os.File
	get    bool
	size   int64
	next   atomic.Int64
	once   sync.Once
	failed error
}

// fail keeps the first error, and ends all others' work.
func (c *copying) fail(err error) {
	if err != nil {
		c.once.Do(func() { c.failed = err })
		c.next.Store(c.size)
	}
}

func (c *copying) blocks(far *sftp.File) {
	from, to := io.ReaderAt(c.near), io.WriterAt(far)
	if c.get {
		from, to = far, c.near
	}
	block := make([]byte, blockBytes)
	for at := c.next.Add(blockBytes) - blockBytes; at < c.size; at = c.next.Add(blockBytes) - blockBytes {
		if left := c.size - at; left < blockBytes {
			block = block[:left]
		}
		if n, err := from.ReadAt(block, at); n < len(block) {
			c.fail(err)
			return
		}
		if _, err := to.WriteAt(block, at); err != nil {
			c.fail(err)
			return
		}
	}
}

// channel has so many requests at once as its window holds.
func (c *copying) channel(far *sftp.File) {
	var all sync.WaitGroup
	for i := 0; i < channelBytes/blockBytes; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			c.blocks(far)
		}()
	}
	all.Wait()
	c.fail(far.Close())
}

// overChannels begins on the file that is open, and joins the other channels once they are.
func (c *copying) overChannels(far *sftp.File, bdp int64, another func() (*sftp.File, error)) error {
	var all sync.WaitGroup
	for i := int64(1); i < mostChannels && i*channelBytes < 2*bdp && i*channelBytes < c.size; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if far, err := another(); err == nil { // a server may allow fewer (MaxSessions)
				c.channel(far)
			}
		}()
	}
	c.channel(far)
	all.Wait()
	return c.failed
}

func transfer(connection *ssh.Client, get bool, remote, local string, bdp int64, stock bool) error {
	open := func(flags int) (*sftp.File, error) {
		client, err := sftp.NewClient(connection)
		if err != nil {
			return nil, err
		}
		return client.OpenFile(remote, flags)
	}
	flags, openNear := os.O_RDONLY, os.Create
	if !get {
		flags, openNear = os.O_WRONLY, os.Open
	}
	if !get { // or what is there would be emptied in vain
		readable, err := os.Open(local)
		if err != nil {
			return err
		}
		if _, err = readable.Read(make([]byte, 1)); err != nil && err != io.EOF {
			return err
		}
		readable.Close()
	}
	first := flags
	if !get {
		first |= os.O_CREATE | os.O_TRUNC
	}
	far, err := open(first)
	if err != nil {
		return err
	}
	near, err := openNear(local)
	if err != nil {
		return err
	}
	var info os.FileInfo
	if get {
		info, err = far.Stat()
	} else {
		info, err = near.Stat()
	}
	if err != nil {
		return err
	}
	if stock {
		if get {
			_, err = far.WriteTo(near)
		} else {
			_, err = far.ReadFrom(near)
		}
		if failed := far.Close(); err == nil {
			err = failed
		}
	} else {
		c := copying{near: near, get: get, size: info.Size()}
		err = c.overChannels(far, bdp, func() (*sftp.File, error) { return open(flags) })
	}
	if failed := near.Close(); err == nil {
		err = failed
	}
	return err
}

func run() error {
	stock := flag.Bool("stock", false, "the library's own way, for comparison")
	bdp := flag.Int64("bdp", -1, "bytes that the path holds; otherwise autobuf is asked")
	key := flag.String("key", "", "")
	acceptAny := flag.Bool("accept-any-host", false, "for trying it: trust whoever answers")
	flag.Parse()
	user, rest, _ := strings.Cut(flag.Arg(1), "@")
	host, remote, _ := strings.Cut(rest, ":")
	if flag.NArg() != 3 || remote == "" || flag.Arg(0) != "get" && flag.Arg(0) != "put" {
		return errors.New("get|put USER@HOST:REMOTE LOCAL")
	}
	connection, err := connect(user, host, *key, *acceptAny)
	if err != nil {
		return err
	}
	defer connection.Close()
	if !*stock && *bdp < 0 {
		*bdp = bdpBytes(host)
	}
	return transfer(connection, flag.Arg(0) == "get", remote, flag.Arg(2), *bdp, *stock)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
