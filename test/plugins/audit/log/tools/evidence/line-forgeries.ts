// Lines that the holder of a log's key signs, good ones and others, each beside a good one.

import { canonicalize } from '@svc/core/json'
import { signerOf } from '../../../../../support/audit-log.js'
import { DAY } from './evidence-rig.js'
import {
  type Forgery,
  forgedLine,
  forgedRecord,
  nextDigit,
  pageOfLines,
  signatureOf,
  signedText,
} from './forged-lines.js'

export function* lineForgeries(): Generator<Forgery, void, void> {
  const bad: Record<string, string | Uint8Array> = {
    'white space': signedText((text) => text.replace('"latency_ms":1.5', '"latency_ms": 1.5')),
    'a member twice, the same': signedText((text) => text.replace('{', '{"tenant":"acme",')),
    'a member twice, another': signedText((text) => text.replace('{', '{"tenant":"beta",')),
    'a member twice, by an escape': signedText((text) => text.replace('{', '{"\\u0074enant":"beta",')),
    'an escape that is not needed': signedText((text) => text.replace('"acme"', '"\\u0061cme"')),
    'a slash that is escaped': signedText((text) => text.replace('files@', 'f\\/es@')),
    'an escape in capital letters': signedText((text) => text.replace('"acme"', '"\\u001F"')),
    'members in another order': signedText((text) => text.replace('{', '{"zzz":1,')),
    'nested members in another order': signedText((text) =>
      text.replace('"decision":"allow","retention":"standard"', '"retention":"standard","decision":"allow"'),
    ),
    'a name of digits after letters': signedText((text) => text.replace(/}$/, ',"5":1}')),
    'names of digits by value': signedText((text) => text.replace('{', '{"9":1,"10":1,')),
    'a number with a zero': signedText((text) => text.replace('1.5', '1.50')),
    'a number with an exponent': signedText((text) => text.replace('1.5', '15e-1')),
    'minus zero': signedText((text) => text.replace('1.5', '-0')),
    'an infinite number': signedText((text) => text.replace('1.5', '1e999')),
    'a number beyond doubles': signedText((text) => text.replace('1.5', '9007199254740993')),
    'not a number': signedText((text) => text.replace('1.5', 'NaN')),
    'a lone surrogate': signedText((text) => text.replace('"acme"', '"\\ud800"')),
    'half of a pair': signedText((text) => text.replace('"acme"', '"\\udc00x\\ud83d"')),
    'a raw control character': signedText((text) => text.replace('"acme"', '"ac\u0001me"')),
    'a raw NUL': signedText((text) => text.replace('"acme"', '"ac\0me"')),
    'a byte order mark': signedText((text) => `\ufeff${text}`),
    'a carriage return at its end': signedText((text) => `${text}\r`),
    'a newline at its end': signedText((text) => `${text}\n`),
    'two objects': signedText((text) => `${text}{}`),
    'a comment': signedText((text) => text.replace('{', '{/**/')),
    'bytes that are not UTF-8': notUtf8(),
    'an overlong character': Buffer.from(forgedLine().replace('acme', 'ac\xc0\xaee'), 'latin1'),
    'depth over 512': signedText((text) =>
      text.replace('1.5', `1.5,"m":${'['.repeat(512)}${']'.repeat(512)}`),
    ),
    'depth over 20,000': signedText((text) =>
      text.replace('1.5', `1.5,"m":${'['.repeat(20_000)}${']'.repeat(20_000)}`),
    ),
    'an array': `[${forgedLine()}]`,
    'a text': '"text"',
    nothing: '',
    'no signature': canonicalize(forgedRecord()),
    'a signature that is not text': canonicalize(forgedRecord({ sig: 5 })),
    'a signature without its prefix': resigned((sig) => sig.replace('ed25519:', '')),
    'a signature in capital letters': resigned((sig) => sig.replace('ed25519', 'Ed25519')),
    'a signature without padding': resigned((sig) => sig.replace(/=+$/, '')),
    'a signature in base64url': resigned((sig) =>
      sig.replaceAll('+', '-').replaceAll('/', '_').replace('A', '-'),
    ),
    'a signature with a space': resigned((sig) => `${sig} `),
    'a signature with other last bits': resigned((sig) =>
      sig.replace(/.==$/, (end) => `${nextDigit(end[0])}==`),
    ),
    'a signature of 63 bytes': resigned((sig) => `${sig.slice(0, -4)}=`.replace('=', '')),
    'a quote in the signature': resigned((sig) => `${sig.slice(0, -3)}"==`),
    'the key of another': forgedLine({ key_id: signerOf(8).keyId }),
    'a key that is not text': forgedLine({ key_id: 5 }),
    'no key, by a name': forgedLine({ key_id: 'my-key' }),
    'a key that is null': forgedLine({ key_id: null }),
    'the line of a journal': forgedLine({ journal: 1 }),
    'a journal that is null': forgedLine({ journal: null }),
  }
  for (const name of [
    'ts',
    'trace_id',
    'span_id',
    'tenant',
    'server',
    'tool',
    'status',
    'latency_ms',
    'policy',
  ])
    for (const value of [undefined, null, ['x']]) bad[`${name} ${value}`] = forgedLine({ [name]: value })
  for (const value of [{}, { decision: null }, { decision: 1 }])
    bad[`policy ${JSON.stringify(value)}`] = forgedLine({ policy: value })
  for (const value of [
    undefined,
    null,
    1,
    'x',
    'aaaaaaaaaaaaaaaa',
    'aaaaaaaaaaaaaaaa:',
    'aaaaaaaaaaaaaaaa:01',
    'AAAAAAAAAAAAAAAA:900',
    'aaaaaaaaaaaaaaaa:9007199254740992',
    'aaaaaaaaaaaaaaaa:١',
    'aaaaaaaaaaaaaaaa:9\n',
  ])
    bad[`seq ${JSON.stringify(value)}`] = forgedLine({ seq: value })
  for (const value of [undefined, null, 'ffffffffffffffff', '0011223344556677 ', '00112233'])
    bad[`log_id ${JSON.stringify(value)}`] = forgedLine({ log_id: value })
  for (const value of [{}, 'x', [[1]], [[2, 1]], [[0, 1.5]], [['0', '1']], [[-1, 2]]])
    bad[`lost ${JSON.stringify(value)}`] = forgedLine({ lost: value })
  for (const ts of [
    '',
    'now',
    DAY,
    `${DAY} 10:00:00Z`,
    `${DAY}T10:00:00`,
    `${DAY}T10:00:00z`,
    `${DAY}T24:00:00Z`,
    '2026-02-30T10:00:00Z',
    '0000-06-01T10:00:00Z',
    '0001-01-01T00:00:00+10:00',
    '9999-12-31T23:00:00-10:00',
    `${DAY}T10:00:00+24:00`,
    `${DAY}T10:00:00Z\n`,
    '٢٠٢٦-11-21T10:00:00Z',
    '+002026-11-21T10:00:00Z',
    `${DAY}T10:00:61Z`,
  ])
    bad[`ts ${JSON.stringify(ts)}`] = forgedLine({ ts })
  for (const [title, line] of Object.entries(bad))
    yield { title: `a line with ${title}`, page: pageOfLines([forgedLine(), line]), found: ['records 2'] }
  const good: Record<string, string> = {
    'no key_id': forgedLine({ key_id: undefined }),
    'an unknown member': forgedLine({ zzz: { b: [1, null, true], a: 'é\u2028\ud83d\ude00"\\' } }),
    'a prototype': forgedLine({ constructor: 1 }),
    'its depth at 511': forgedLine({ m: nested(511) }),
    'names of digits': forgedLine({ m: { 10: 1, 9: 2 } }),
    'characters of many planes': forgedLine({ m: { '\ufb33': 1, '\ud83d\ude00': 2, '\r': 3, ö: 4 } }),
    'numbers of many forms': forgedLine({
      m: [
        0, 1e21, 1e-7, 123456789012345680000, 5e-324, 1.7976931348623157e308, 0.1, -1, 100, 1e22,
        333333333.3333333,
      ],
    }),
    'a byte order mark in a text': forgedLine({ tenant: '\ufeffacme' }),
    'an early year': forgedLine({ ts: '0001-01-01T00:00:00Z' }),
    'a comma in its time': forgedLine({ ts: `${DAY}T10:00:00,5Z` }),
    'a leap second': forgedLine({ ts: `${DAY}T23:59:60Z` }),
    'a zone': forgedLine({ ts: `${DAY}T00:30+05:30` }),
    'lost numbers': forgedLine({
      lost: [
        [0, 2],
        [7, 7],
      ],
    }),
    'text that looks green': forgedLine({ tool: '\u001b[32mproven\u001b[0m ✅@1', tenant: '\u202eneverp' }),
    markup: forgedLine({ tool: '</script><style>.failed{color:green}</style><form id=verdict>@1' }),
  }
  for (const [title, line] of Object.entries(good))
    yield { title: `a line with ${title}`, page: pageOfLines([forgedLine(), line]), found: [] }
}

function resigned(change: (sig: string) => string): string {
  const record = forgedRecord()
  return canonicalize({ ...record, sig: change(signatureOf(canonicalize(record))) })
}

function notUtf8(): Buffer {
  const line = Buffer.from(forgedLine({ tenant: 'acmX' }))
  line[line.indexOf('acmX') + 3] = 0xff
  return line
}

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < depth; i++) value = [value]
  return value
}
