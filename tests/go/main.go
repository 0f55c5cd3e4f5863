// Clients and a server of Go for the tests: `http URL CLEAR`, `grpc-server`, `grpc-client ADDRESS`. Each prints a line
// for what came of each step.
package main

import (
	"fmt"
	"os"
)

func main() {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "http":
		askHTTP(os.Args[2], os.Args[3])
	case len(os.Args) == 2 && os.Args[1] == "grpc-server":
		serve()
	case len(os.Args) == 3 && os.Args[1] == "grpc-client":
		call(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "http URL CLEAR | grpc-server | grpc-client ADDRESS")
		os.Exit(2)
	}
}

func tell(name string, told any, err error) {
	if err != nil {
		told = "error: " + err.Error()
	}
	fmt.Printf("%s: %v\n", name, told)
}
