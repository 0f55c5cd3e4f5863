package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Messages are plain bytes.
type plain struct{}

func (plain) Name() string                        { return "plain" }
func (plain) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }
func (plain) Unmarshal(bytes []byte, to any) error {
	*to.(*[]byte) = append([]byte{}, bytes...)
	return nil
}

const limit = 20 * time.Second
const largest = 16 << 20

func unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	grpc.SetHeader(ctx, metadata.Pairs("x-initial", strings.Join(sent.Get("x-sent"), ",")))
	grpc.SetTrailer(ctx, metadata.Pairs("x-trailing", "there"))
	message = append([]byte("unary "), message...)
	return &message, nil
}

func fails(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.InvalidArgument, "wrong: "+string(message)+" ä%")
}

func never(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Each message comes back at once.
func both(_ any, stream grpc.ServerStream) error {
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if string(message) == "fail" {
			return status.Error(codes.DataLoss, "late")
		}
		message = append([]byte("echo "), message...)
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

func serve() {
	server := grpc.NewServer(grpc.ForceServerCodec(plain{}), grpc.MaxRecvMsgSize(largest))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "tests.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Unary", Handler: unary},
			{MethodName: "Fails", Handler: fails},
			{MethodName: "Never", Handler: never},
		},
		Streams: []grpc.StreamDesc{{StreamName: "Both", Handler: both, ServerStreams: true, ClientStreams: true}},
	}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server.Serve(listener)
}

type caller struct {
	connection *grpc.ClientConn
}

func (c caller) unary(method string, message []byte, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-sent", "value")
	var answer []byte
	var header, trailer metadata.MD
	err := c.connection.Invoke(ctx, "/tests.Echo/"+method, &message, &answer,
		grpc.ForceCodec(plain{}), grpc.Header(&header), grpc.Trailer(&trailer), grpc.MaxCallRecvMsgSize(largest))
	if len(answer) > 100 {
		answer = fmt.Appendf(nil, "%d bytes", len(answer))
	}
	return fmt.Sprintf("%q %v %v", answer, header.Get("x-initial"), trailer.Get("x-trailing")), err
}

// Each message is sent when the answer to the one before it is there.
func (c caller) inTurn(messages ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := c.connection.NewStream(ctx, description, "/tests.Echo/Both", grpc.ForceCodec(plain{}))
	if err != nil {
		return nil, err
	}
	var answers []string
	for _, message := range messages {
		bytes := []byte(message)
		if err := stream.SendMsg(&bytes); err != nil {
			return answers, err
		}
		var answer []byte
		if err := stream.RecvMsg(&answer); err != nil {
			return answers, fmt.Errorf("after %q: %w", answers, err)
		}
		answers = append(answers, string(answer))
	}
	stream.CloseSend()
	var answer []byte
	if err := stream.RecvMsg(&answer); err != io.EOF {
		return answers, fmt.Errorf("no end: %v", err)
	}
	return answers, nil
}

// 1,000 messages in one call, sent without waiting.
func (c caller) many() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := c.connection.NewStream(ctx, description, "/tests.Echo/Both", grpc.ForceCodec(plain{}))
	if err != nil {
		return nil, err
	}
	go func() {
		bytes := []byte(strings.Repeat("z", 1000))
		for range 1000 {
			if stream.SendMsg(&bytes) != nil {
				return
			}
		}
		stream.CloseSend()
	}()
	count, length := 0, 0
	for {
		var answer []byte
		err := stream.RecvMsg(&answer)
		if err == io.EOF {
			return fmt.Sprintf("%d messages, %d bytes", count, length), nil
		} else if err != nil {
			return nil, err
		}
		count, length = count+1, length+len(answer)
	}
}

// 200 calls on one connection at the same time.
func (c caller) atOnce() (any, error) {
	results := make(chan string)
	for range 200 {
		go func() {
			told, err := c.unary("Unary", []byte("hello"), limit)
			results <- fmt.Sprint(told, err)
		}()
	}
	different := map[string]int{}
	for range 200 {
		different[<-results]++
	}
	return different, nil
}

func call(address string) {
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := caller{connection}
	one := func(name, method string, message []byte, limit time.Duration) {
		told, err := c.unary(method, message, limit)
		tell(name, told, err)
	}
	one("unary", "Unary", []byte("hello"), limit)
	one("empty", "Unary", nil, limit)
	one("large", "Unary", []byte(strings.Repeat("y", 3_000_000)), limit)
	one("error", "Fails", []byte("this"), limit)
	one("no such method", "Missing", nil, limit)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	var answer []byte
	message := []byte{}
	err = connection.Invoke(ctx, "/tests.Echo/Never", &message, &answer, grpc.ForceCodec(plain{}))
	cancel()
	tell("deadline", status.Code(err), nil)
	one("after the deadline", "Unary", []byte("still there"), limit)
	told, err := c.inTurn("a", "b", "c")
	tell("both in turn", told, err)
	told, err = c.inTurn("a", "fail")
	tell("late error", told, err)
	told, err = c.many()
	tell("both", told, err)
	told, err = c.atOnce()
	tell("at once", told, err)
}
