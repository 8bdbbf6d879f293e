'use strict';
// What the page shows of each kind of service.

function facts(list, pairs) {
  list.replaceChildren(
    ...pairs.map(([name, value]) => {
      const pair = make('div');
      pair.append(make('dt', name), make('dd', value));
      return pair;
    }),
  );
  return list;
}

// What only a process in trouble has.
const troubles = ({ panics, threads_replaced, threads_ended, log_dropped, log_suppressed }) =>
  [
    ['panics', panics],
    ['threads replaced', threads_replaced],
    ['threads ended', threads_ended],
    ['log records dropped', log_dropped],
    ['log records suppressed', log_suppressed],
  ]
    .filter(([, number]) => number > 0)
    .map(([name, number]) => [name, count(number)]);

const PAGES = {
  'event-channel': (s) => ({
    title: s.id ? `Event channel ${s.id}` : 'Event channel',
    facts: [
      ['consumers', count(s.consumers.length + s.left_out)],
      ['not shown', count(s.left_out)],
      ['events that wait', `${count(s.copies - s.free_copies)} of ${count(s.copies)}`],
      ['look-ups an event', count(s.lookups)],
      ['lost to their size', count(s.too_large)],
      ['not declared', count(s.undeclared)],
      ['suppliers lost', count(s.suppliers_lost)],
      ['pushes to unknown proxies', count(s.unknown_proxies)],
      ['not owned', count(s.not_owned)],
      ['owners changed', count(s.owners_changed)],
      ['instances missed', count(s.instances_missed)],
      ['without the key', count(s.unauthenticated)],
      ...(s.links ? [
        ['sent to neighbours', count(s.links.forwarded)],
        ['received from neighbours', count(s.links.received)],
        ['lost on links', count(s.links.lost)],
        ['waited for their pace', count(s.links.paced)],
      ] : []),
      ['trace', s.tracing ? 'on' : 'off: no latencies'],
      ...troubles(s.process ?? {}),
    ],
    rates: [
      ['total_push_rate', 'Pushes a second', s.push_rate, rate(s.push_rate)],
      ['total_loss_rate', 'Losses a second', s.loss_rate, rate(s.loss_rate)],
      ['total_waiting', 'Pushes that wait', s.waiting, count(s.waiting)],
      ...(s.links ? [
        ['forward_rate', 'Sent to neighbours a second', s.links.forward_rate, rate(s.links.forward_rate)],
        ['receive_rate', 'Received from neighbours a second', s.links.receive_rate, rate(s.links.receive_rate)],
      ] : []),
    ],
    tables: [
      table('consumers', 'Consumers', CONSUMERS, s.consumers, (c) => c.id),
      ...(s.links ? [table('neighbours', 'Neighbours in the federation', NEIGHBOURS, s.neighbours, (n) => n.link)] : []),
    ],
  }),
  'reflective-memory': (s) => ({
    title: `Reflective memory, node ${s.name}`,
    facts: [
      ['processes', count(s.sessions)],
      ['bytes', `${count(s.bytes)} of ${count(s.bytes_limit)}`],
      ['guaranteed channels', count(s.guaranteed)],
      ['processor given away', `${part(s.cpu)} of ${part(s.cpu_share)}`],
      ['link given away', `${part(s.link)} of ${part(s.link_share)}`],
      ['not shown', count(s.left_out)],
      ...troubles(s.process ?? {}),
    ],
    tables: [
      table('areas', 'Areas of this node', AREAS, s.areas, (a) => a.name),
      table('replicas', 'Read from other nodes', REPLICAS, s.replicas, (r) => r.name),
    ],
  }),
  unreachable: (s) => ({ title: `The page at ${s.address} cannot be read`, facts: [['why', s.why]], tables: [] }),
  ended: () => ({ title: 'The service has ended', facts: [], tables: [] }),
};
