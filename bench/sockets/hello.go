// HTTP server with Go's net/http. Go calls the kernel directly, so a preload library cannot intercept its sockets.
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
