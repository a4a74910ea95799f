// What forgers put into evidence files: by the line, by its proof, by the data, by the keys that the reader has. Each row says
// what has to be found; every verifier finds the same.

import { sha256Hex } from '@svc/core/json'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { signerOf } from '../../../../../support/audit-log.js'
import { DAY, keyLine } from './evidence-rig.js'
import { type Forgery, forgedLine, pageOfLines } from './forged-lines.js'
import { lineForgeries } from './line-forgeries.js'
import { dataForgeries, proofForgeries } from './proof-forgeries.js'

export function* forgeries(): Generator<Forgery, void, void> {
  yield* lineForgeries()
  yield* pairs()
  yield* selections()
  yield* proofForgeries()
  yield* dataForgeries()
  yield* keyFiles()
}

/** Records that are good one by one. */
function* pairs(): Generator<Forgery, void, void> {
  const seq = 'bbbbbbbbbbbbbbbb:7'
  const page = (...all: string[]) => pageOfLines(all)
  const one = forgedLine({ seq })
  yield { title: 'a record at two leaves', page: page(one, one), found: ['records 2'] }
  yield {
    title: 'a number twice in a day',
    page: page(one, forgedLine({ seq, tenant: 'beta' })),
    found: ['records 2'],
  }
  yield {
    title: 'a number twice, on the same day by zones',
    page: page(one, forgedLine({ seq, ts: '2026-11-22T00:30:00+05:30' })),
    found: ['records 2'],
  }
  yield {
    title: 'a number on two days',
    page: page(one, forgedLine({ seq, ts: '2026-11-22T10:00:00Z' })),
    found: [],
  }
  yield {
    title: 'records of two logs',
    page: page(forgedLine(), forgedLine({ log_id: 'ffffffffffffffff' }), forgedLine()),
    found: ['records 2'],
  }
  const text = '{"name":"refund"}'
  const sha256 = '15ef3c8c6c0ae9b2f03ba3e7b9f5ed8fbd2b3a0ea3b0c3b4a8a29b0b9c3a7d11'
  const served = (changes: object) =>
    forgedLine({ tool: 'definitions/serve@1', event: { text, sha256: hash, ...changes } })
  const hash = sha256Hex(text)
  const naming = forgedLine({ definition_sha256: hash })
  const rows: [string, string, string[]][] = [
    ['a definition', served({}), []],
    ['a definition of another hash', served({ sha256 }), ['definitions 1']],
    ['a definition of another text', served({ text: `${text} ` }), ['definitions 1']],
    ['a definition without text', served({ text: 5 }), ['definitions 1']],
    [
      'a definition of another event',
      forgedLine({ tool: 'notes/add@1', event: { text, sha256: hash } }),
      ['definitions 1'],
    ],
  ]
  for (const [title, line, found] of rows) yield { title, page: pageOfLines([naming], {}, [line]), found }
  yield {
    title: 'a definition that is not named',
    page: pageOfLines([forgedLine()], {}, [served({})]),
    found: ['definitions 1'],
  }
  yield {
    title: 'a definition in both lists',
    page: pageOfLines([naming, one], {}, [served({}), served({})]),
    found: [],
  }
}

/** Each member of a filter, with what it selects and what it does not. */
function* selections(): Generator<Forgery, void, void> {
  const record = {
    ts: `${DAY}T10:00:00.500Z`,
    agentRef: 'run-7',
    nodeId: 'node-1',
    principal: { user: 'bob', user_id: 'u-1', client_id: 'c-1' },
    error: 'TIMEOUT',
    escalation_id: 'esc_1',
    policy_sha256: 'abcdef',
  }
  const rows: [string, string[], string[]][] = [
    [
      'since',
      [DAY, `${DAY}T10:00:00.500Z`, `${DAY}T10:00:00,5Z`, `${DAY}T11:00+01:00`, '0001-01-01'],
      [
        `${DAY}T10:00:00.501Z`,
        '2026-11-22',
        'yesterday',
        '',
        '2026-02-30',
        `${DAY}T10:00:60Z`,
        '0000-01-01',
        ' 2026-11-21',
        '٢٠٢٦-11-21',
      ],
    ],
    [
      'until',
      ['2026-11-22', `${DAY}T10:00:00.5001Z`.replace('5001', '501')],
      [DAY, `${DAY}T10:00:00.500Z`, `${DAY}T10:00:00.5009Z`, 'never', '9999-99-99'],
    ],
    ['tenant', ['acme'], ['Acme', 'acme ', '', 'acm', 'acme\u200b']],
    ['tool', ['read', 'read@1.0.0'], ['rea', 'read@', 'read@1', '', 'READ']],
    ['server', ['files', 'files@1.0.0'], ['file', 'files@1.0', '']],
    ['decision', ['allow'], ['deny', '', 'ALLOW']],
    ['status', ['ok'], ['error', '']],
    ['trace_id', ['4bf92f3577b34da6a3ce929d0e0e4736'], ['4bf92f35', '']],
    ['span_id', [], ['', 'ffffffffffffffff']],
    ['agent', ['run-7', 'node-1'], ['run', '']],
    ['principal', ['bob', 'u-1', 'c-1'], ['bo', '', 'user']],
    ['error', ['TIMEOUT'], ['', 'TIME']],
    ['escalation', ['esc_1'], ['esc', '']],
    ['policy_sha256', ['abcdef', 'abc', ''], ['bcd', 'abcdef0']],
  ]
  for (const [name, selects, others] of rows) {
    for (const value of [...selects, ...others]) {
      const page = pageOfLines([forgedLine(record)], { [name]: value })
      const found = selects.includes(value) ? [] : ['records 1']
      yield { title: `selected by ${name} ${JSON.stringify(value)}`, page, found }
    }
  }
  const odd: [string, object][] = [
    ['principal', { principal: null }],
    ['principal', { principal: 'bob' }],
    ['principal', { principal: ['bob'] }],
    ['agent', { agentRef: null, nodeId: null }],
    ['policy_sha256', { policy_sha256: 5 }],
    ['policy_sha256', { policy_sha256: null }],
    ['policy_sha256', { policy_sha256: ['abc'] }],
    ['escalation', { escalation_id: ['esc_1'] }],
    ['error', { error: { TIMEOUT: 1 } }],
  ]
  for (const [name, changes] of odd)
    for (const value of ['', 'None', 'null', '5', 'bob'])
      yield {
        title: `selected by ${name} ${JSON.stringify(value)} of ${JSON.stringify(changes)}`,
        page: pageOfLines([forgedLine(changes as Record<string, unknown>)], { [name]: value }),
        found: ['records 1'],
      }
}

/** What the reader gives as keys. */
function* keyFiles(): Generator<Forgery, void, void> {
  const page = pageOfLines([forgedLine(), forgedLine()])
  const stranger = publicKeyLine(signerOf(99).publicKey)
  const all = ['records 1', 'records 2']
  const rows: [string, string, readonly string[]][] = [
    ['a comment', `# keys\n\n${keyLine}`, []],
    ['a comment after white space', `  # keys\n  ${keyLine}  `, []],
    ['line ends of Windows', `${keyLine}\r\n${stranger}\r\n`, []],
    ['leaves', `${keyLine} 0 2`, []],
    ['leaves by a tab', `${keyLine}\t0\t2`, []],
    ['fewer leaves', `${keyLine} 0 1`, all],
    ['later leaves', `${keyLine} 1`, ['records 1']],
    ['the key twice', `${keyLine}\n${keyLine}`, []],
    ['another key', stranger, all],
    ['another key and its own', `${stranger}\n${keyLine}`, []],
  ]
  for (const [title, keys, found] of rows) yield { title: `keys with ${title}`, page, keys, found }
}
