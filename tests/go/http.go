package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"
)

// Asks over TLS, where the handshake chooses HTTP/2, and in clear, where the client knows it beforehand.
func askHTTP(secure, clear string) {
	insecure := &tls.Config{InsecureSkipVerify: true}
	overTLS := &http.Transport{TLSClientConfig: insecure, ForceAttemptHTTP2: true}
	ask("TLS", overTLS, secure)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	ask("clear", &http.Transport{Protocols: &protocols}, clear)
}

func ask(name string, transport *http.Transport, base string) {
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	steps := []struct {
		name string
		run  func(*http.Client, string) (any, error)
	}{
		{"many at once", manyAtOnce},
		{"large download", largeDownload},
		{"cancelled download", cancelledDownload},
		{"upload", upload},
		{"upload of unknown length", uploadOfUnknownLength},
		{"upload with trailers", uploadWithTrailers},
		{"upload with leave", uploadWithLeave},
		{"trailers of the response", trailers},
		{"missing", missing},
	}
	for _, step := range steps {
		told, err := step.run(client, base)
		tell(name+" "+step.name, told, err)
	}
}

func text(response *http.Response, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%s %d %q", response.Proto, response.StatusCode, content), err
}

func manyAtOnce(client *http.Client, base string) (any, error) {
	var group sync.WaitGroup
	answers := make([]string, 100)
	for index := range answers {
		group.Go(func() {
			told, err := text(client.Get(base + "/said"))
			answers[index] = fmt.Sprint(told, err)
		})
	}
	group.Wait()
	sort.Strings(answers)
	if answers[0] != answers[len(answers)-1] {
		return answers, nil
	}
	return fmt.Sprint("100 times ", answers[0]), nil
}

func largeDownload(client *http.Client, base string) (any, error) {
	response, err := client.Get(base + "/large.bin")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	sum, length := 0, 0
	content, err := io.ReadAll(response.Body)
	for _, value := range content {
		sum, length = sum+int(value), length+1
	}
	return fmt.Sprintf("%s %d bytes with the sum %d", response.Proto, length, sum), err
}

// The connection serves further requests afterwards.
func cancelledDownload(client *http.Client, base string) (any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", base+"/large.bin", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(response.Body, make([]byte, 1000))
	if err != nil {
		return nil, err
	}
	cancel()
	_, err = io.Copy(io.Discard, response.Body)
	// All of it may have come before.
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return text(client.Get(base + "/said"))
}

func upload(client *http.Client, base string) (any, error) {
	return text(client.Post(base+"/length", "text/plain", strings.NewReader(strings.Repeat("x", 1_000_000))))
}

func uploadOfUnknownLength(client *http.Client, base string) (any, error) {
	return uploadInPieces(client, base, nil)
}

func uploadWithTrailers(client *http.Client, base string) (any, error) {
	return uploadInPieces(client, base, http.Header{"X-After": nil})
}

func uploadInPieces(client *http.Client, base string, trailers http.Header) (any, error) {
	reader, writer := io.Pipe()
	request, err := http.NewRequest("PUT", base+"/streamed", reader)
	if err != nil {
		return nil, err
	}
	request.Trailer = trailers
	go func() {
		for range 100 {
			fmt.Fprint(writer, strings.Repeat("y", 10_000))
		}
		for name := range trailers {
			trailers.Set(name, "after the content")
		}
		writer.Close()
	}()
	return text(client.Do(request))
}

func uploadWithLeave(client *http.Client, base string) (any, error) {
	request, err := http.NewRequest("POST", base+"/length", strings.NewReader("content"))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Expect", "100-continue")
	return text(client.Do(request))
}

func trailers(client *http.Client, base string) (any, error) {
	response, err := client.Get(base + "/trailer")
	told, err := text(response, err)
	if err != nil {
		return nil, err
	}
	return fmt.Sprint(told, " ", response.Trailer), nil
}

func missing(client *http.Client, base string) (any, error) {
	response, err := client.Get(base + "/missing")
	if err != nil {
		return nil, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}
