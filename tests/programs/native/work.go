// Goroutines, garbage, and programs that are started, the last of them this one: $1 is the number of nodes of each
// goroutine. Prints what they found.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
)

type node struct {
	next *node
	data [50]uint64
}

func work(seed uint64, count int) uint64 {
	var head *node
	at := seed
	nodes := make([]*node, 0, count)
	for i := 0; i < count; i++ {
		n := &node{next: head}
		n.data[i%50] = at
		head = n
		nodes = append(nodes, n)
		at = at*6364136223846793005 + 1442695040888963407
	}
	var s uint64
	for i := 0; i < count; i++ {
		at = at*6364136223846793005 + 1442695040888963407
		n := nodes[(at>>20)%uint64(count)]
		n.data[(at>>50)%50] += s
		s = s*31 + n.data[7]
		garbage := make([]byte, 256)
		garbage[i%256] = 1
		s += uint64(garbage[3])
	}
	for n := head; n != nil; n = n.next {
		for _, d := range n.data {
			s = s*31 + d
		}
	}
	return s
}

func main() {
	var group sync.WaitGroup
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	results := make([]uint64, 6)
	for i := range results {
		group.Add(1)
		go func() { defer group.Done(); results[i] = work(uint64(i+1), count) }()
	}
	group.Wait()
	for _, r := range results {
		fmt.Println(r)
	}
	for i := 0; i < 5; i++ {
		out, err := exec.Command("sh", "-c", fmt.Sprintf("echo child %d; exit %d", i, i)).CombinedOutput()
		fmt.Print(string(out), err, "\n")
	}
	if len(os.Args) < 3 {
		out, err := exec.Command("/proc/self/exe", os.Args[1], "again").CombinedOutput()
		fmt.Print(string(out), err, "\n")
	}
	runtime.GC()
	fmt.Println(work(99, count))
}
