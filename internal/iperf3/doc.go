// Package iperf3 speaks the wire protocol of iperf3 (https://software.es.net/iperf/)
// at either end: Server serves stock iperf3 clients, many at a time, and Run
// drives a stock iperf3 server. docs/iperf3.md says what is supported and what
// differs.
//
// A test has a control connection over TCP and data streams over TCP or UDP. The
// control connection, and every TCP stream, begins with the same 37-byte cookie.
// After it the server leads: each of its messages is a state of one byte, to
// which the client reacts; parameters and results are JSON behind a length.
//
//	client                                server
//	cookie                           →
//	                                 ←    PARAM_EXCHANGE
//	parameters                       →
//	                                 ←    CREATE_STREAMS
//	streams, one after the other     →
//	                                 ←    TEST_START, TEST_RUNNING
//	                   … data, either way or both …
//	TEST_END                         →
//	                                 ←    EXCHANGE_RESULTS
//	results                          →
//	                                 ←    results, DISPLAY_RESULTS
//	IPERF_DONE                       →
//
// The protocol has no document of its own: what is here follows the behaviour
// of the program, version 3.0 to 3.21 (src/iperf_api.h, iperf_server_api.c,
// iperf_client_api.c, iperf_udp.c at https://github.com/esnet/iperf).
package iperf3
