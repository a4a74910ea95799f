// Manipulations by the thief of a former key, and by a process that can only write files.

import { mkdirSync, rmSync } from 'node:fs'
import { canonicalize, toBase64 } from '@svc/core/json'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { LogBuilder } from '../../../../../../support/audit-log.js'
import { EARLY, type Files, first, REMOVED, second, stranger, TODAY } from './fixture.js'
import type { Manipulation } from './manipulation.js'

const journal = 'audit.journal'
const today = `audit-${TODAY}.ndjson`
const newest = `audit-${TODAY}.checkpoint`
const HEAD = 'head-kept-elsewhere'

/** The leaves that the first key may sign in the log that `rewritten` replaces. */
const LEAVES = [0, 6] as const

/** A log that the first key alone has written, also after it left the true one. `more` is what its thief adds. */
function rewritten(f: Files, more: (log: LogBuilder) => void = () => undefined): void {
  const head = f.text(newest)
  rmSync(f.dir, { recursive: true })
  mkdirSync(f.dir)
  const log = new LogBuilder(f.dir, { at: `${TODAY}T10:00:00.000Z` })
  for (let i = 0; i < 4; i++) log.record(TODAY)
  log.seal()
  more(log)
  log.record(TODAY)
  log.seal()
  log.finish()
  f.write(HEAD, head)
}

const plant = (f: Files, name: string, text: string) => {
  mkdirSync(f.path(name.slice(0, name.lastIndexOf('/'))), { recursive: true })
  f.write(name, text)
}

/** A record whose signature fits its bytes, in which a member stands twice. */
function twice(log: LogBuilder): string {
  const { sig: _, ...record } = JSON.parse(log.recordLine(TODAY))
  const text = canonicalize(record).replace('{', '{"tenant":"beta",')
  const sig = `ed25519:${toBase64(log.signer.sign(Buffer.from(text)))}`
  return text.replace('"span_id"', () => `"sig":"${sig}","span_id"`)
}

export const partyManipulations: readonly Manipulation[] = [
  {
    title: 'the holder of the key seals a line that two parsers read differently',
    build: { before: (log) => log.append(TODAY, twice(log)) },
    found: [`${today}:13: not_canonical`],
  },
  {
    title: 'the thief of a former key rewrites the log, and neither its leaves nor a head are known',
    tamper: (f) => rewritten(f),
    found: [],
    undetectable: 'all signatures are of a trusted key; its leaves or a head kept elsewhere show it',
  },
  {
    title: 'the thief of a former key rewrites the log, and the leaves of the key are known',
    tamper: (f) => rewritten(f),
    options: { leaves: LEAVES },
    found: [`${today}:5: revoked_key`, `${journal}:3: revoked_key`, `${newest}:11: revoked_key`],
  },
  {
    title:
      'the thief of a former key introduces a key of his own, and the leaves of the former key are known',
    tamper: (f) =>
      rewritten(f, (log) => {
        log.journal({ kind: 'key', key: publicKeyLine(stranger.publicKey) })
        log.checkpoint()
        log.signer = stranger
        log.checkpointSigners = [stranger]
      }),
    options: { leaves: LEAVES },
    found: [
      `${journal}:3: revoked_key`,
      `${newest}:11: revoked_key`,
      `${today}:5: unknown_key`,
      `${journal}:4: unknown_key`,
      `${newest}:16: unknown_key`,
    ],
  },
  {
    title: 'the thief of a former key rewrites only what the key may sign, and a head was kept elsewhere',
    tamper: (f) => rewritten(f),
    options: { against: HEAD, leaves: [0, 8] },
    found: [`${HEAD}:1: unknown_key`, `${HEAD}:6: unknown_key`],
  },
  {
    title: 'the log is as it was written, and the leaves of the first key are known',
    options: { leaves: [0, 25] },
    found: [],
  },
  {
    title: 'a file of an agent is planted for a day that retention removed',
    tamper: (f, log) =>
      plant(f, `agents/node/${REMOVED}/run.ndjson`, `${log.recordLine(REMOVED, {}, first)}\n`),
    options: { agents: true },
    found: [`agents/node/${REMOVED}/run.ndjson:1: agent_file`],
  },
  {
    title: 'a file of an agent is planted for a day that never was',
    tamper: (f) => plant(f, 'agents/node/2020-01-01/run.ndjson', '{}\n'),
    options: { agents: true },
    found: ['agents/node/2020-01-01/run.ndjson:1: agent_file'],
  },
  {
    title: 'a file of an agent is planted beside the records of a day',
    tamper: (f, log) => plant(f, `agents/node/${EARLY}/run.ndjson`, `${log.recordLine(EARLY, {}, second)}\n`),
    options: { agents: true },
    found: [`agents/node/${EARLY}/run.ndjson:1: agent_file`],
  },
]
