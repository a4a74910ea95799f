// Manipulations of a log, several at once: by a process that can write its files, by the thief of a former key, and by
// the holder of the upload key. Both verifiers must agree, and report every change of sealed
// content.

import { createHash } from 'node:crypto'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { signNote } from '@svc/plugin-audit/internal/log/keys/signatures'
import { objectKey, scan } from '@svc/plugin-audit/internal/log/upload/source'
import type { LocalDevSigner } from '@svc/plugin-audit/log'
import { fetchLog, readKeys, type VerifyReport, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { checkpointManipulations } from '../../plugins/audit/log/tools/verify/matrix/checkpoint-manipulations.js'
import {
  buildLog,
  Files,
  first,
  stranger,
  third,
  trusted,
} from '../../plugins/audit/log/tools/verify/matrix/fixture.js'
import { journalManipulations } from '../../plugins/audit/log/tools/verify/matrix/journal-manipulations.js'
import { partyManipulations } from '../../plugins/audit/log/tools/verify/matrix/party-manipulations.js'
import { type PythonVerdict, verifyInPython } from '../../plugins/audit/log/tools/verify/matrix/python.js'
import { recordManipulations } from '../../plugins/audit/log/tools/verify/matrix/record-manipulations.js'
import { METADATA, OWNER } from '../../plugins/audit/log/upload/cloud.js'
import type { LogBuilder } from '../../support/audit-log.js'
import type { Chance } from '../../support/chance.js'
import { type Experiment, eachRound, type Figures } from './experiment.js'

const CASES = 12
const MOST_EDITS = 3
const EDITS = ['drop', 'repeat', 'swap', 'cut', 'flip', 'remove', 'sign again', 'add', 'revoke'] as const

export const manipulatedLog: Experiment = {
  name: 'manipulated-log',
  full: 40,
  short: 1,
  rounds: (count, seed) => eachRound(count, seed, round),
}

/** The manipulations that need no key, or a former one. */
const table = [
  ...recordManipulations,
  ...journalManipulations,
  ...checkpointManipulations,
  ...partyManipulations,
].filter(
  ({ build, options, title }) =>
    build === undefined && options === undefined && !/holder of the key/.test(title),
)

interface Case {
  readonly dir: string
  readonly what: string
}

async function round(chance: Chance, folder: string): Promise<Figures> {
  const template = join(folder, 'template')
  const log = buildLog(template)
  const head = join(folder, 'head')
  writeFileSync(head, readFileSync(join(template, 'audit-2026-11-21.checkpoint')))
  const keys = join(folder, 'keys')
  writeFileSync(keys, `${trusted.map(publicKeyLine).join('\n')}\n`)
  const cases: Case[] = []
  for (let i = 0; i < CASES; i++) {
    const dir = join(folder, `case-${i}`)
    const what =
      i % 3 === 0
        ? await inStore(chance, template, dir, log)
        : inFiles(chance, template, dir, log, i % 3 === 1 ? [stranger] : [first, third])
    cases.push({ dir, what })
  }
  const python = verifyInPython(
    cases.map(({ dir }) => ({ folder: dir, keys, against: head, origin: undefined, allow_unsealed: false })),
  )
  const figures = { cases: 0, found: 0 }
  for (const [i, { dir, what }] of cases.entries()) {
    const report = await verifyLog(dir, { keys: await readKeys(keys), against: head })
    const said = ({ verdict, failures }: Pick<VerifyReport, 'verdict' | 'failures'> | PythonVerdict) => {
      const places = failures.map(({ file, line, kind }) => `${file}:${line}: ${kind}`)
      return [verdict, ...places.sort()].join('\n')
    }
    expect(python[i] && said(python[i]), `both verifiers: ${what}`).to.equal(said(report))
    if (report.verdict === 'intact') expectSealed(template, dir, log, what)
    figures.cases++
    if (report.verdict !== 'intact') figures.found++
  }
  return figures
}

/** Every sealed line is where it was. */
function expectSealed(template: string, dir: string, { days }: LogBuilder, what: string): void {
  for (const [day, { end }] of days) {
    const name = `audit-${day}.ndjson`
    if (!existsSync(join(template, name))) continue
    const sealed = (from: string) => readFileSync(join(from, name)).subarray(0, end).toString()
    expect(sealed(dir), `${name}, which verification calls intact: ${what}`).to.equal(sealed(template))
  }
}

/** Some manipulations of the table, and some edits. */
function inFiles(
  chance: Chance,
  template: string,
  dir: string,
  log: LogBuilder,
  keys: [LocalDevSigner, ...LocalDevSigner[]],
): string {
  cpSync(template, dir, { recursive: true })
  const done: string[] = []
  for (let left = chance.int(1, MOST_EDITS); left > 0; left--) {
    const one = table[chance.int(0, table.length - 1)]
    const names = readdirSync(dir).filter(
      (name) => name.startsWith('audit') && statSync(join(dir, name)).isFile(),
    )
    if (names.length === 0) break
    const name = names[chance.int(0, names.length - 1)] ?? ''
    const by = chance.pick(keys)
    if (chance.int(0, 1) === 0 && one !== undefined) {
      try {
        one.tamper?.(new Files(dir), log)
      } catch (error) {
        // An earlier manipulation removed what this one changes.
        done.push(`(${String(error).slice(0, 40)})`)
      }
      done.push(one.title)
    } else done.push(edit(chance, dir, name, log, by))
  }
  return done.join('; ')
}

/** Changes lines of a file, or adds one that `by` signs. */
function edit(chance: Chance, dir: string, name: string, log: LogBuilder, by: LocalDevSigner): string {
  const path = join(dir, name)
  const lines = readFileSync(path, 'latin1').split(/(?<=\n)/)
  const at = chance.int(0, lines.length - 1)
  const other = chance.int(0, lines.length - 1)
  const line = lines[at] ?? ''
  const kind = chance.pick(EDITS)
  if (kind === 'remove') rmSync(path)
  else {
    const changed = {
      drop: () => lines.toSpliced(at, 1),
      repeat: () => lines.toSpliced(other, 0, line),
      swap: () => lines.with(at, lines[other] ?? '').with(other, line),
      cut: () => [...lines.slice(0, at), line.slice(0, chance.int(0, line.length))],
      flip: () => lines.with(at, flipped(chance, line)),
      'sign again': () => lines.with(at, signedAgain(line, log, by)),
      add: () => [...lines, `${log.recordLine('2026-11-21', {}, by)}\n`],
      revoke: () =>
        lines.toSpliced(
          at,
          0,
          `${log.journalLine({ kind: 'revoke', revoked: first.keyId, until: 3 }, by)}\n`,
        ),
    }[kind]()
    writeFileSync(path, changed.join(''), 'latin1')
  }
  return `${kind} line ${at} (${other}) of ${name}, by ${by.keyId.slice(0, 14)}`
}

function flipped(chance: Chance, line: string): string {
  const at = chance.int(0, line.length - 1)
  return (
    line.slice(0, at) + String.fromCharCode(line.charCodeAt(at) ^ chance.int(1, 127)) + line.slice(at + 1)
  )
}

/** The line with another value and the signature of `by`. */
function signedAgain(line: string, log: LogBuilder, by: LocalDevSigner): string {
  if (!line.startsWith('{')) return line
  const { sig: _, ...members } = JSON.parse(line) as Record<string, unknown>
  return `${log.sign({ ...members, key_id: by.keyId }, by)}\n`
}

/**
 * Restores the log from a store in which the holder of the upload key has added and replaced objects.
 */
async function inStore(chance: Chance, template: string, dir: string, log: LogBuilder): Promise<string> {
  const objects = new Map<string, Buffer>()
  const put = (source: ReturnType<typeof scan>[number]['source'], start: number, bytes: Buffer) => {
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const key = objectKey(METADATA, source, { start, end: start + bytes.length, sha256 })
    objects.set(key, bytes)
    return key
  }
  const found = scan(template)
  for (const { source } of found) {
    const bytes = readFileSync(join(template, source.path))
    const text = bytes.toString('latin1')
    // A round of the upload ends with a whole line, checkpoint or tree.
    const ends = { checkpoint: /(?<=\n)(?=\S*svc-audit)/, tree: /(?!)/, cover: /(?!)/ } as Readonly<
      Record<string, RegExp>
    >
    const pieces = text.split(ends[source.mode] ?? /(?<=\n)/)
    let start = 0
    while (pieces.length > 0) {
      const piece = Buffer.from(pieces.splice(0, chance.int(1, 8)).join(''), 'latin1')
      put(source, start, piece)
      start += piece.length
    }
  }
  const done: string[] = []
  const note = await signNote(`${log.origin}\n99\n${Buffer.alloc(32).toString('base64')}\n`, log.origin, [
    first,
  ])
  for (let left = chance.int(1, MOST_EDITS); left > 0; left--) {
    const keys = [...objects.keys()]
    const key = keys[chance.int(0, keys.length - 1)] ?? ''
    const [start = 0] = /-(\d+)-\d+-[0-9a-f]{16}\.ndjson$/.exec(key)?.slice(1).map(Number) ?? []
    const of = found.find(({ source }) => key.includes(`/${source.folder}/${source.stem}-`))
    const kind = chance.pick(['delete', 'replace', 'move', 'add', 'note'])
    const bytes = objects.get(key) ?? Buffer.alloc(0)
    if (kind === 'delete') objects.delete(key)
    if (kind === 'replace') objects.set(key, Buffer.from(flipped(chance, bytes.toString('latin1')), 'latin1'))
    if (of !== undefined && kind === 'move')
      put(of.source, chance.pick([0, start + 1, start + bytes.length, 1e15]), bytes)
    if (of !== undefined && kind === 'add')
      put(of.source, start, Buffer.from(flipped(chance, bytes.toString('latin1')), 'latin1'))
    if (of !== undefined && kind === 'note') put(of.source, start, Buffer.from(note))
    done.push(`${kind} ${key.slice(OWNER.length)}`)
  }
  const server = createServer((request, response) => {
    const bytes = objects.get(decodeURIComponent(request.url ?? '').slice(1))
    response.writeHead(bytes === undefined ? 404 : 200).end(bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    await fetchLog(
      {
        prefix: async () => `${OWNER}/`,
        list: async function* (prefix) {
          for (const key of [...objects.keys()].sort()) if (key.startsWith(prefix)) yield { key }
        },
        url: async (key) => ({ url: `${url}/${encodeURIComponent(key)}`, headers: {} }),
      },
      dir,
    )
  } finally {
    server.closeAllConnections()
    server.close()
  }
  return done.join('; ')
}
