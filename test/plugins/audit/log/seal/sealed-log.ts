// Reads a sealed log as docs/audit-format.md says, on node:crypto alone, and checks that its parts lead to each other:
// journal, ranges, roots, keys, and every checkpoint that was ever written.

import { createHash, verify as verifySignature } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import { expect } from 'chai'
import { keyObject, openNote } from './independent-verifier.js'

const ED25519 = 'ed25519:'

// biome-ignore lint/suspicious/noExplicitAny: the lines of the journal are read as anyone would read them.
export type Line = Record<string, any>

interface Checkpoint {
  readonly day: string
  readonly size: number
  /** Base64. */
  readonly root: string
  readonly signatures: number
}

export interface SealedLog {
  readonly journal: Line[]
  /** The notes in the order of their files. */
  readonly checkpoints: Checkpoint[]
  /** Leaves of the tree, each with its hash; undefined for those of removed days. */
  readonly size: number
  /** Sealed records of each day. */
  readonly sealed: Map<string, number>
  /** Lines of each day's file. */
  readonly lines: Map<string, string[]>
}

interface Key {
  readonly publicKey: Buffer
  readonly from: number
  until: number
  readonly by: string
}

const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const leafOf = (line: string | Buffer) => sha256(Buffer.of(0), Buffer.from(line))
const nodeOf = (left: Buffer, right: Buffer) => sha256(Buffer.of(1), left, right)

/** The roots of the complete subtrees, largest first, each with its number of leaves. */
class Tree {
  size = 0
  readonly #roots: { root: Buffer; leaves: number }[] = []

  add(root: Buffer, leaves = 1): void {
    this.#roots.push({ root, leaves })
    this.size += leaves
    for (;;) {
      const [left, right] = this.#roots.slice(-2)
      if (left === undefined || right === undefined || left.leaves !== right.leaves) return
      this.#roots.splice(-2, 2, { root: nodeOf(left.root, right.root), leaves: 2 * left.leaves })
    }
  }

  root(): string {
    const roots = this.#roots.map(({ root }) => root)
    const [last, ...before] = roots.reverse()
    if (last === undefined) return sha256().toString('base64')
    return before.reduce((right, left) => nodeOf(left, right), last).toString('base64')
  }
}

export function journalOf(dir: string): Line[] {
  return linesIn(join(dir, 'audit.journal')).map((line) => JSON.parse(line))
}

function linesIn(path: string): string[] {
  if (!existsSync(path)) return []
  const text = readFileSync(path, 'utf8')
  expect(text === '' || text.endsWith('\n'), `${path} ends in a newline`).to.equal(true)
  return text.split('\n').slice(0, -1)
}

function isSigned(line: Line, publicKey: Buffer): boolean {
  const { sig, ...unsigned } = line
  const signature = Buffer.from(sig.slice(ED25519.length), 'base64')
  return verifySignature(null, Buffer.from(canonicalize(unsigned)), keyObject(publicKey), signature)
}

const publicKeyOf = (line: string) => Buffer.from(line.slice(ED25519.length), 'base64')
const keyIdOf = (publicKey: Buffer) => ED25519 + createHash('sha256').update(publicKey).digest('hex')

/** Throws if the log is not intact. A log with a `fault` line is read as far as it goes. */
export function sealedLog(dir: string): SealedLog {
  const stored = linesIn(join(dir, 'audit.journal'))
  const journal: Line[] = stored.map((line) => JSON.parse(line))
  const names = readdirSync(dir)
  const days = names.flatMap((name) => /^audit-(.{10})\.ndjson$/.exec(name)?.[1] ?? [])
  const lines = new Map(days.map((day) => [day, linesIn(join(dir, `audit-${day}.ndjson`))]))
  const tree = new Tree()
  const roots = new Map<number, string>()
  const keys = new Map<string, Key>()
  const ends = new Map<string, number>()
  const covers = new Map<string, Buffer>()
  const sealed = new Map<string, number>()
  for (const [i, line] of journal.entries()) {
    expect(canonicalize(line), `line ${i}`).to.equal(stored[i])
    expect(line['log_id']).to.equal(journal[0]!['log_id'])
    if (line['kind'] === 'genesis') {
      const publicKey = publicKeyOf(line['key'])
      keys.set(keyIdOf(publicKey), { publicKey, from: 0, until: Infinity, by: '' })
    }
    for (const [day, start, end, count] of line['ranges'] ?? []) {
      expect(start, `start of a range of ${day}`).to.equal(ends.get(day) ?? 0)
      expect(Math.floor(tree.size / 4096)).to.equal(Math.floor((tree.size + count - 1) / 4096))
      addRange(dir, { day, start, end, count }, tree, covers)
      ends.set(day, end)
      sealed.set(day, (sealed.get(day) ?? 0) + count)
    }
    if (line['ends']) expect(line['ends']).to.deep.equal([...ends].sort())
    expect(line['leaf'], `leaf of line ${i}`).to.equal(tree.size)
    expect(line['root'], `root of line ${i}`).to.equal(tree.root())
    const key = keys.get(line['key_id'])
    expect(key !== undefined && key.from <= tree.size && tree.size < key.until, `key of ${i}`).to.equal(true)
    expect(isSigned(line, key!.publicKey), `signature of line ${i}`).to.equal(true)
    tree.add(leafOf(stored[i]!))
    roots.set(tree.size, tree.root())
    if (line['kind'] === 'fault') ends.set(line['day'], line['resume'])
    if (line['kind'] === 'remove') {
      expect(line['lines']).to.equal(sealed.get(line['day']))
      const cover = readFileSync(join(dir, `audit-${line['day']}.cover`))
      expect(line['cover']).to.equal(createHash('sha256').update(cover).digest('base64'))
      ends.delete(line['day'])
    }
    if (line['key'] && line['kind'] === 'key') {
      const publicKey = publicKeyOf(line['key'])
      keys.set(keyIdOf(publicKey), { publicKey, from: line['leaf'] + 1, until: Infinity, by: line['key_id'] })
    }
    const gone = line['retired'] ?? line['revoked']
    if (gone) keys.get(gone)!.until = line['until']
  }
  const checkpoints = names
    .filter((name) => name.endsWith('.checkpoint'))
    .sort()
    .flatMap((name) => {
      const origin = journal[0]!['origin']
      const text = readFileSync(join(dir, name), 'utf8')
      const notes = text.split(new RegExp(`(?=^${origin.replaceAll('.', '\\.')}\n)`, 'm'))
      // A writer that died may have left a part of a genesis.
      const last = notes.pop() ?? ''
      const whole = /^[\s\S]*?\n\n(\u2014 \S+ \S+\n)+/.exec(last)?.[0]
      if (whole !== undefined) notes.push(whole)
      return notes.map((note) => {
        const [, size = '', root = ''] = note.split('\n')
        const trusted = [...keys.values()].filter(
          ({ from, until }) => from < Number(size) && Number(size) <= until,
        )
        const signers = trusted.filter(({ publicKey }) => canOpen(note, origin, publicKey))
        expect(signers.length, `signatures of checkpoint ${size} in ${name}`).to.be.above(0)
        // Consistent with every later one: each is a prefix of the one tree.
        expect(root, `root of checkpoint ${size}`).to.equal(roots.get(Number(size)))
        return {
          day: name.slice(6, 16),
          size: Number(size),
          root,
          signatures: note.split('\u2014').length - 1,
        }
      })
    })
  return { journal, checkpoints, size: tree.size, sealed, lines }
}

function canOpen(note: string, origin: string, publicKey: Uint8Array): boolean {
  try {
    openNote(note, origin, publicKey)
    return true
  } catch {
    return false
  }
}

function addRange(
  dir: string,
  { day, start, end, count }: { day: string; start: number; end: number; count: number },
  tree: Tree,
  covers: Map<string, Buffer>,
): void {
  const path = join(dir, `audit-${day}.ndjson`)
  if (existsSync(path)) {
    const bytes = readFileSync(path).subarray(start, end).toString()
    const lines = bytes.split('\n')
    expect(lines.pop(), `end of a range of ${day}`).to.equal('')
    expect(lines.length, `lines of a range of ${day}`).to.equal(count)
    for (const line of lines) tree.add(leafOf(line))
    return
  }
  let cover = covers.get(day) ?? readFileSync(join(dir, `audit-${day}.cover`))
  for (const to = tree.size + count; tree.size < to; cover = cover.subarray(32)) {
    let leaves = 1
    while (tree.size % (2 * leaves) === 0 && tree.size + 2 * leaves <= to) leaves *= 2
    tree.add(Buffer.from(cover.subarray(0, 32)), leaves)
  }
  covers.set(day, cover)
}
