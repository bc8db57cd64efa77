// SPDX-License-Identifier: MIT

// A client and a server by Go's x/crypto/ssh, for test_clients.py.
//
// go_peer sftp|cat HOST PORT USER KEY get|put NAME FILE REKEY_BYTES copies a file, by SFTP or by "cat" at the server.
// REKEY_BYTES: exchange keys again each time; 0: when the library likes. go_peer serve PORT HOST_KEY: whoever comes
// may do everything, in this folder.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func need(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func signer(file string) ssh.Signer {
	data, err := os.ReadFile(file)
	need(err)
	key, err := ssh.ParsePrivateKey(data)
	need(err)
	return key
}

func bySftp(client *ssh.Client, way, name string, file *os.File) {
	files, err := sftp.NewClient(client, sftp.UseConcurrentWrites(true))
	need(err)
	defer files.Close()
	if way == "get" {
		remote, err := files.Open(name)
		need(err)
		_, err = remote.WriteTo(file)
		need(err)
		need(remote.Close())
		return
	}
	remote, err := files.Create(name)
	need(err)
	_, err = remote.ReadFrom(file)
	need(err)
	need(remote.Close())
}

func byCat(client *ssh.Client, way, name string, file *os.File) {
	session, err := client.NewSession()
	need(err)
	defer session.Close()
	if way == "get" {
		session.Stdout = file
		need(session.Run("cat " + name))
		return
	}
	session.Stdin = file
	need(session.Run("cat >" + name))
}

func copyFile(protocol, host, port, user, key, way, name, local, rekey string) {
	threshold, err := strconv.ParseUint(rekey, 10, 64)
	need(err)
	config := &ssh.ClientConfig{
		Config:          ssh.Config{RekeyThreshold: threshold},
		User:            user,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer(key))},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	}
	client, err := ssh.Dial("tcp", net.JoinHostPort(host, port), config)
	need(err)
	defer client.Close()
	file, err := os.Open(local)
	if way == "get" {
		file, err = os.Create(local)
	}
	need(err)
	if protocol == "sftp" {
		bySftp(client, way, name, file)
	} else {
		byCat(client, way, name, file)
	}
	need(file.Close())
}

// Runs the command of a session, or serves files, and says how it ended.
func session(channel ssh.Channel, requests <-chan *ssh.Request) {
	for request := range requests {
		var text struct{ Value string }
		known := (request.Type == "exec" || request.Type == "subsystem") &&
			ssh.Unmarshal(request.Payload, &text) == nil
		if request.WantReply {
			need(request.Reply(known, nil))
		}
		if !known {
			continue
		}
		go func(kind string) {
			defer channel.Close()
			status := uint32(0)
			if kind == "exec" {
				command := exec.Command("sh", "-c", text.Value)
				command.Stdin, command.Stdout = channel, channel
				if command.Run() != nil {
					status = 1
				}
			} else {
				server, err := sftp.NewServer(channel)
				need(err)
				if err := server.Serve(); err != nil && err != io.EOF {
					status = 1
				}
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		}(request.Type)
	}
}

func serve(port, hostKey string) {
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer(hostKey))
	listener, err := net.Listen("tcp", ":"+port)
	need(err)
	for {
		socket, err := listener.Accept()
		need(err)
		_, channels, requests, err := ssh.NewServerConn(socket, config)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		go ssh.DiscardRequests(requests)
		go func() {
			for wanted := range channels {
				channel, requests, err := wanted.Accept()
				need(err)
				go session(channel, requests)
			}
		}()
	}
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3])
	} else if len(os.Args) == 10 {
		a := os.Args
		copyFile(a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
	} else {
		log.Fatal("usage: see the text")
	}
}
