// Stands in for Azure Service Bus, of which there is nothing that runs here: the part that
// the driver uses, after the descriptions "AMQP 1.0 in Azure Service Bus protocol guide" and
// "request/response-based operations" of its documentation. Queues appear when they are
// named; what is in them is in memory. Messages are locked when they are delivered
// (peek-lock), come again when the lock ran out or they were abandoned, and go to the dead
// letters after ten deliveries. $cbs takes any token.
//
// node standin.js PORT LOCK-SECONDS, with rhea on NODE_PATH.
'use strict';
const crypto = require('crypto');
const rhea = require('rhea');

const [port, lockSeconds] = process.argv.slice(2).map(Number);
const MOST_DELIVERIES = 10;
// The queue whose clock is ahead of this machine's, and by how much.
const AHEAD = 'ahead';
const AHEAD_MS = 600_000;
// The queue whose first links either way are ended, as Azure ends those that it throttles.
const BUSY = 'busy';
const BUSY_LINKS = 2;
const BUSY_ERROR = { condition: 'com.microsoft:server-busy', description: 'The request was terminated because the namespace is being throttled. Error code : 50009.' };
const container = rhea.create_container();
container.sasl_server_mechanisms.enable_anonymous();
const timestamps = 0x83; // the AMQP type of what is in the array "expirations"

// Tokens are the bytes of a .NET Guid as a delivery's tag, of an RFC 4122 UUID in a request.
function other(token) {
  const t = Buffer.from(token);
  t.subarray(0, 4).reverse();
  t.subarray(4, 6).reverse();
  t.subarray(6, 8).reverse();
  return t;
}

class Queue {
  constructor(name) {
    this.ahead = name === AHEAD ? AHEAD_MS : 0;
    this.waiting = []; // messages by their sequence number
    this.locked = new Map(); // by token, hexadecimal
    this.dead = [];
    this.receivers = new Set();
    this.sequence = 0;
  }
  put(message) {
    this.waiting.push({ sequence: ++this.sequence, deliveries: 0, message, since: Date.now() });
    this.serve();
  }
  serve() {
    for (const receiver of this.receivers) {
      while (this.waiting.length > 0 && receiver.sendable()) {
        const m = this.waiting.shift();
        const token = crypto.randomBytes(16);
        m.until = Date.now() + lockSeconds * 1000;
        this.locked.set(token.toString('hex'), m);
        receiver.send(this.told(m), token);
      }
    }
  }
  // A message as it is delivered.
  told(m) {
    return {
      body: m.message.body,
      delivery_count: m.deliveries,
      message_annotations: {
        'x-opt-sequence-number': rhea.types.wrap_long(m.sequence),
        'x-opt-enqueued-time': rhea.types.wrap_timestamp(m.since + this.ahead),
        'x-opt-locked-until': rhea.types.wrap_timestamp(m.until ? m.until + this.ahead : 0),
      },
    };
  }
  again(key) {
    const m = this.locked.get(key);
    this.locked.delete(key);
    if (m === undefined) return;
    if (++m.deliveries >= MOST_DELIVERIES) {
      this.dead.push(m);
      return;
    }
    const at = this.waiting.findIndex((w) => w.sequence > m.sequence);
    this.waiting.splice(at < 0 ? this.waiting.length : at, 0, m);
    this.serve();
  }
  expire() {
    const now = Date.now();
    for (const [key, m] of this.locked) if (m.until <= now) this.again(key);
  }
  // What a receiver says of a delivery.
  settle(event, key) {
    if (event === 'modified' || event === 'released') return this.again(key);
    if (event === 'rejected' && this.locked.has(key)) this.dead.push(this.locked.get(key));
    this.locked.delete(key);
  }
  // What is asked of the queue's $management.
  answer(request) {
    const operation = request.application_properties.operation;
    const keys = (request.body['lock-tokens'] || []).map((t) => other(t).toString('hex'));
    switch (operation) {
      case 'com.microsoft:peek-message': {
        const from = request.body['from-sequence-number'];
        const seen = this.waiting.filter((m) => m.sequence >= from).slice(0, request.body['message-count']);
        if (seen.length === 0) return [204, 'nothing to see', {}];
        return [200, 'OK', { messages: seen.map((m) => ({ message: rhea.message.encode(this.told(m)) })) }];
      }
      case 'com.microsoft:renew-lock': {
        if (!keys.every((key) => this.locked.has(key))) return [410, 'the lock supplied is invalid', {}];
        const until = keys.map((key) => (this.locked.get(key).until = Date.now() + lockSeconds * 1000) + this.ahead);
        return [200, 'OK', { expirations: rhea.types.wrap_array(until, timestamps) }];
      }
      case 'com.microsoft:update-disposition': {
        if (!keys.every((key) => this.locked.has(key))) return [410, 'the lock supplied is invalid', {}];
        const said = { completed: 'accepted', abandoned: 'modified', suspended: 'rejected' }[request.body['disposition-status']];
        keys.forEach((key) => this.settle(said, key));
        return [200, 'OK', {}];
      }
    }
    return [501, `there is no ${operation} here`, {}];
  }
}

const queues = new Map();
function queue(name) {
  if (!queues.has(name)) queues.set(name, new Queue(name));
  return queues.get(name);
}
let throttled = 0;
const throttles = (address) => address === BUSY && throttled++ < BUSY_LINKS;
setInterval(() => queues.forEach((q) => q.expire()), 50);

container.on('connection_open', ({ connection }) => connection.socket.setNoDelay(true));
container.on('sender_open', ({ sender }) => {
  const { address } = sender.source;
  sender.set_source({ address });
  sender.set_target({ address: sender.target.address });
  // As the client wishes: settled at once or not, and by whom first.
  for (const mode of ['snd_settle_mode', 'rcv_settle_mode']) sender.local.attach[mode] = sender.remote.attach[mode];
  if (address === '$cbs' || address.endsWith('/$management')) return;
  const of = queue(address);
  if (throttles(address)) return sender.close(BUSY_ERROR);
  const settled = (event) => sender.on(event, ({ delivery }) => {
    of.settle(event, Buffer.from(delivery.tag).toString('hex'));
    delivery.update(true, rhea.message.accepted().described()); // receivers settle second
  });
  ['accepted', 'rejected', 'released', 'modified'].forEach(settled);
  sender.on('sendable', () => of.serve());
  sender.on('sender_draining', () => sender.set_drained(true));
  of.receivers.add(sender);
});
const leave = ({ sender }) => queues.forEach((q) => q.receivers.delete(sender));
container.on('sender_close', leave);
container.on('disconnected', ({ connection }) => {
  queues.forEach((q) => q.receivers.forEach((r) => { if (r.connection === connection) q.receivers.delete(r); }));
});

container.on('receiver_open', ({ receiver }) => {
  receiver.set_target({ address: receiver.target.address });
  receiver.set_source({ address: receiver.source ? receiver.source.address : undefined });
  if (throttles(receiver.target.address)) receiver.close(BUSY_ERROR);
});

container.on('message', ({ message, receiver, connection }) => {
  const to = receiver.target.address;
  const management = to.endsWith('/$management');
  if (to !== '$cbs' && !management) return queue(to).put(message);
  const [code, text, body] = management ? queue(to.slice(0, -'/$management'.length)).answer(message) : [202, 'Accepted', {}];
  const back = connection.find_sender((s) => s.target && s.target.address === message.reply_to);
  if (!back) return;
  back.send({
    correlation_id: message.message_id,
    body,
    application_properties: {
      'status-code': rhea.types.wrap_int(code), 'status-description': text,
      statusCode: rhea.types.wrap_int(code), statusDescription: text,
    },
  });
});

// Clients that are killed are none of its business.
for (const event of ['connection_error', 'session_error', 'sender_error', 'receiver_error', 'protocol_error', 'error']) {
  container.on(event, (context) => console.log(event, String(context.error || '')));
}
container.listen({ port, host: '127.0.0.1', max_frame_size: 65536, session_buffer_size: 16384 });
