# Runs a command in front of a router that sends 200 Mbit/s (tbf, as tc makes it), or
# with EACH_FLOW=1 half of it for flows with even and for those with odd source ports, with
# a server behind it at 10.2.0.1. It needs network and mount namespaces of its own.
set -e
mount -t tmpfs none /run
ip link set lo up
for node in router server; do
	ip netns add $node
	ip -n $node link set lo up
done
ip link add c type veth peer name c netns router
ip -n router link add s type veth peer name s netns server
ip address add 10.1.0.1/24 dev c
ip link set c up
ip -n router address add 10.1.0.2/24 dev c
ip -n router link set c up
ip -n router address add 10.2.0.2/24 dev s
ip -n router link set s up
ip -n server address add 10.2.0.1/24 dev s
ip -n server link set s up
ip route add default via 10.1.0.2
ip -n server route add default via 10.2.0.2
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
if [ "$EACH_FLOW" ]; then
	tc -n router qdisc add dev s root handle 1: htb default 1
	for class in 1 2; do
		tc -n router class add dev s parent 1: classid 1:$class htb rate 100mbit burst 128k quantum 10000
		tc -n router qdisc add dev s parent 1:$class pfifo limit 300
	done
	tc -n router filter add dev s parent 1: protocol ip u32 match ip sport 1 1 flowid 1:2
else
	tc -n router qdisc add dev s root tbf rate 200mbit burst 128k limit 1m
fi
ip netns exec server "$1" serve --open >server.log 2>&1 &
server=$!
until ip netns exec server ss -ltn | grep -q :5201; do
	kill -0 $server
	sleep 0.05
done
status=0
"$@" || status=$?
kill $server
exit $status
