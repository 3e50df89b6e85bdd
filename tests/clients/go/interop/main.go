// gRPC's public interoperability cases, by grpc-go's own client.
//
//	interop ADDRESS
//
// Prints a line for each case. A case that fails ends the program with 1.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// The public case, with a status that the server has.
func specialStatusMessage(ctx context.Context, client pb.TestServiceClient, _ ...grpc.CallOption) {
	want := status.New(codes.Internal, "\t\ntab, line end\r\n, 100 %, caf\u00e9 and \U0001f408\t\n")
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{
		Code: int32(want.Code()), Message: want.Message()}})
	if got := status.Convert(err); got.Code() != want.Code() || got.Message() != want.Message() {
		fmt.Printf("special_status_message: got %q, want %q\n", got, want)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: interop ADDRESS")
		os.Exit(2)
	}
	conn, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client := pb.NewTestServiceClient(conn)
	for _, one := range []struct {
		name string
		run  func(context.Context, pb.TestServiceClient, ...grpc.CallOption)
	}{
		{"empty_unary", interop.DoEmptyUnaryCall},
		{"large_unary", interop.DoLargeUnaryCall},
		{"client_streaming", interop.DoClientStreaming},
		{"server_streaming", interop.DoServerStreaming},
		{"ping_pong", interop.DoPingPong},
		{"timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer},
		{"cancel_after_begin", interop.DoCancelAfterBegin},
		{"cancel_after_first_response", interop.DoCancelAfterFirstResponse},
		{"special_status_message", specialStatusMessage},
	} {
		one.run(ctx, client)
		fmt.Println("passed", one.name)
	}
	interop.DoUnimplementedMethod(ctx, conn)
	fmt.Println("passed unimplemented_method")
	interop.DoUnimplementedService(ctx, pb.NewUnimplementedServiceClient(conn))
	fmt.Println("passed unimplemented_service")
}
