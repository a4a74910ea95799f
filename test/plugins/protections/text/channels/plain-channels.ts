// Responses of a plain tool server: types, codings, statuses and events.
import { gzipSync } from 'node:zlib'
import { attack, type Channel, type Respond } from './channel.js'

function plain(headers: Record<string, string>, body: string | Uint8Array, status = 200): Respond {
  return (response) => {
    response.writeHead(status, headers)
    response.end(body)
  }
}

const types: Readonly<Record<string, string>> = {
  'text/plain': attack,
  'TEXT/HTML; charset=UTF-8': `<p>${attack}</p>`,
  'application/json': JSON.stringify({ a: [attack] }),
  'application/vnd.x+json': JSON.stringify(attack),
  'application/xml': `<a>${attack}</a>`,
  'application/soap+xml': `<a>${attack}</a>`,
  'application/x-ndjson': `{"a":1}\n${JSON.stringify({ a: attack })}\n`,
  'application/yaml': `a: ${attack}`,
  'application/javascript': `// ${attack}`,
  'application/x-www-form-urlencoded': `a=${attack.replaceAll(' ', '+')}`,
  'application/octet-stream': attack,
  'image/svg+xml': `<svg><text>${attack}</text></svg>`,
  'image/png': attack,
  'multipart/mixed; boundary=x': `--x\r\n\r\n${attack}\r\n--x--`,
  nonsense: attack,
}

export const plainChannels: readonly Channel[] = [
  ...Object.entries(types).map(([type, body]): Channel => [type, plain({ 'content-type': type }, body)]),
  ['no type', plain({}, attack)],
  ['a key', plain({ 'content-type': 'application/json' }, JSON.stringify({ [attack]: 1 }))],
  ['JSON that is none', plain({ 'content-type': 'application/json' }, `{"a": "${attack}",}`)],
  ['two JSON values', plain({ 'content-type': 'application/json' }, `{} "${attack}"`)],
  ['a doubled member', plain({ 'content-type': 'application/json' }, `{"a":"${attack}","a":1}`)],
  [
    'deep JSON',
    plain({ 'content-type': 'application/json' }, `${'['.repeat(3000)}"${attack}"${']'.repeat(3000)}`),
  ],
  ['a byte order mark', plain({ 'content-type': 'application/json' }, `\ufeff${JSON.stringify(attack)}`)],
  [
    'a list of tools',
    plain({ 'content-type': 'application/json' }, JSON.stringify({ tools: [], a: attack })),
  ],
  ['UTF-16', plain({ 'content-type': 'text/plain; charset=utf-16le' }, Buffer.from(attack, 'utf16le'))],
  [
    'UTF-16 without a charset',
    plain({ 'content-type': 'text/plain' }, Buffer.from(`\ufeff${attack}`, 'utf16le')),
  ],
  [
    'Latin-1',
    plain({ 'content-type': 'text/plain; charset=iso-8859-1' }, Buffer.from(`caf\xe9 ${attack}`, 'latin1')),
  ],
  [
    'Latin-1 without a charset',
    plain({ 'content-type': 'text/plain' }, Buffer.from(`caf\xe9 ${attack}`, 'latin1')),
  ],
  ['an unknown charset', plain({ 'content-type': 'text/plain; charset=x-none' }, attack)],
  ['gzip', plain({ 'content-type': 'text/plain', 'content-encoding': 'gzip' }, gzipSync(attack))],
  [
    'gzip of JSON',
    plain(
      { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      gzipSync(JSON.stringify(attack)),
    ),
  ],
  ['an unknown coding', plain({ 'content-type': 'text/plain', 'content-encoding': 'x-none' }, attack)],
  ['identity in capitals', plain({ 'content-type': 'text/plain', 'content-encoding': 'Identity' }, attack)],
  ...[201, 400, 500].flatMap((status): Channel[] => [
    [`status ${status}`, plain({ 'content-type': 'text/plain' }, attack, status)],
    [
      `status ${status} with JSON`,
      plain({ 'content-type': 'application/json' }, JSON.stringify({ attack }), status),
    ],
  ]),
  ['an event', plain({ 'content-type': 'text/event-stream' }, `data: ${attack}\n\n`)],
  ['the type of an event', plain({ 'content-type': 'text/event-stream' }, `event: ${attack}\ndata: 1\n\n`)],
  ['the id of an event', plain({ 'content-type': 'text/event-stream' }, `id: ${attack}\ndata: 1\n\n`)],
  ['another field of an event', plain({ 'content-type': 'text/event-stream' }, `x: ${attack}\ndata: 1\n\n`)],
  ['a comment between events', plain({ 'content-type': 'text/event-stream' }, `: ${attack}\n\ndata: 1\n\n`)],
  [
    'an event without data',
    plain({ 'content-type': 'text/event-stream' }, `event: ${attack}\n\ndata: 1\n\n`),
  ],
  [
    'an event that is not UTF-8',
    plain(
      { 'content-type': 'text/event-stream' },
      Buffer.concat([Buffer.from('data: '), Buffer.from([0xff, 0x20]), Buffer.from(`${attack}\n\n`)]),
    ),
  ],
  ['an event without an end', plain({ 'content-type': 'text/event-stream' }, `data: ${attack}`)],
  [
    'an event of lines',
    plain({ 'content-type': 'text/event-stream' }, `data: ${attack.replaceAll(' ', '\ndata: ')}\n\n`),
  ],
  [
    'a word an event',
    plain(
      { 'content-type': 'text/event-stream' },
      attack
        .split(' ')
        .map((word) => `data: ${word}\n\n`)
        .join(''),
    ),
  ],
  [
    'a large event',
    plain({ 'content-type': 'text/event-stream' }, `data: ${attack} ${'paid '.repeat(300_000)}\n\n`),
  ],
  [
    'UTF-8 that is broken',
    plain({ 'content-type': 'text/plain' }, Buffer.concat([Buffer.from([0xff, 0x20]), Buffer.from(attack)])),
  ],
]
