// Writes a log that seals each record by itself, every ten seconds, in the format of docs/audit-format.md. A writer, which
// waits for the disk at each seal, would need a hundred times as long.

import { hash } from 'node:crypto'
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import type { LocalDevSigner } from '@svc/plugin-audit/log'

const LOG_ID = '00112233445566778899aabbccddeeff'
const ORIGIN = `svc-audit.invalid/${LOG_ID}`
const SESSION = 'aaaaaaaaaaaaaaaa'
const START = Date.parse('2026-01-01T00:00:00.000Z')
const INTERVAL_MS = 10_000
const RETENTION_DAYS = 400
const ED25519 = Buffer.of(1)

function sha256(...parts: readonly Uint8Array[]): Buffer {
  return Buffer.from(hash('sha256', Buffer.concat(parts), 'hex'), 'hex')
}

/** The roots of the complete subtrees, largest first (RFC 6962). */
class Tree {
  size = 0
  readonly #roots: Buffer[] = []

  append(line: string): void {
    let node = sha256(Buffer.of(0), Buffer.from(line))
    for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2) {
      node = nodeOf(this.#roots.pop() ?? node, node)
    }
    this.#roots.push(node)
    this.size++
  }

  root(): string {
    const [last = sha256(), ...others] = this.#roots.toReversed()
    return others.reduce((root, left) => nodeOf(left, root), last).toString('base64')
  }
}

function nodeOf(left: Buffer, right: Buffer): Buffer {
  return sha256(Buffer.of(1), left, right)
}

/** @returns bytes of the log. */
export function writeSealedLog(dir: string, seals: number, signer: LocalDevSigner): number {
  const { keyId, publicKey } = signer
  const tree = new Tree()
  const files = new Map<string, string>()
  const add = (file: string, text: string) => files.set(file, (files.get(file) ?? '') + text)
  const append = (file: string, unsigned: object): string => {
    const sig = signer.sign(Buffer.from(canonicalize(unsigned)))
    const line = canonicalize({ ...unsigned, sig: `ed25519:${Buffer.from(sig).toString('base64')}` })
    tree.append(line)
    add(file, `${line}\n`)
    return line
  }
  const noteKey = sha256(Buffer.from(`${ORIGIN}\n`), ED25519, publicKey).subarray(0, 4)
  const seal = (at: string, body: object) => {
    const place = { journal: 1, log_id: LOG_ID, leaf: tree.size, root: tree.root(), at, key_id: keyId }
    append('audit.journal', { ...place, ...body })
    const text = `${ORIGIN}\n${tree.size}\n${tree.root()}\n`
    const signature = Buffer.concat([noteKey, signer.sign(Buffer.from(text))]).toString('base64')
    add(`audit-${at.slice(0, 10)}.checkpoint`, `${text}\n\u2014 ${ORIGIN} ${signature}\n`)
  }
  const key = `ed25519:${Buffer.from(publicKey).toString('base64')}`
  const genesis = { kind: 'genesis', format: 1, origin: ORIGIN, retention_days: RETENTION_DAYS, key }
  seal(new Date(START).toISOString(), genesis)
  const ends = new Map<string, number>()
  const retention = { keys: [[key, 0, null, null]], retention_days: RETENTION_DAYS }
  let [day, end, number, hour] = ['', 0, 0, '']
  for (let i = 1; i <= seals; i++) {
    const at = new Date(START + i * INTERVAL_MS).toISOString()
    if (!at.startsWith(day) || day === '') [day, end, number] = [at.slice(0, 10), 0, 0]
    const place = { log_id: LOG_ID.slice(0, 16), seq: `${SESSION}:${number++}` }
    const call = { tenant: 'acme', server: 'files@1.0.0', tool: 'read@1.0.0', status: 'ok', latency_ms: 1.5 }
    const record = append(`audit-${day}.ndjson`, { ts: at, key_id: keyId, ...place, ...call })
    const start = end
    end += Buffer.byteLength(record) + 1
    ends.set(day, end)
    // The first seal of an hour repeats what the lines before it say.
    const isFirst = hour !== at.slice(0, 13)
    hour = at.slice(0, 13)
    const summary = isFirst ? { ends: [...ends], since: new Date(START).toISOString(), ...retention } : {}
    seal(at, { kind: 'seal', ranges: [[day, start, end, 1]], ...summary })
  }
  mkdirSync(dir)
  for (const [file, text] of files) appendFileSync(join(dir, file), text)
  return [...files.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0)
}
