// Package amqptest runs brokers that speak AMQP 1.0, for tests.
package amqptest
