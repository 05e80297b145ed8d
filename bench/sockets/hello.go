// A server of Go's net/http, which calls the kernel directly: a preload library does not reach it.
package main

import (
	"fmt"
	"net"
	"net/http"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Write(make([]byte, 1024))
	})
	panic(http.Serve(listener, nil))
}
