// An evidence file of a small log, and the three verifiers that read such files.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sha256Hex } from '@svc/core/json'
import { readVerifierKeys, webChecker } from '@svc/plugin-audit/browser'
import { judgeEvidence, readEvidence } from '@svc/plugin-audit/internal/log/format/evidence-data'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { parseWitnessKey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { checkEvidence, evidenceOf, type LogFilter, readKeys } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder, signerOf } from '../../../../../support/audit-log.js'

export const DAY = '2026-11-21'
const signer = signerOf(7)
export const keyLine = publicKeyLine(signer.publicKey)
const definition = '{"description":"Refunds","name":"refund"}'
const SEED_OF_STRANGER = 99

export interface EvidenceRig {
  readonly root: string
  /** The page with every record of acme. */
  readonly page: string
  /** The same with another key, of records that say otherwise. */
  readonly forged: string
  /** An earlier checkpoint, and the newest one. */
  readonly heads: readonly [older: string, newest: string]
  readonly journalLine: string
  pageOf(filter: LogFilter): Promise<string>
  remove(): void
}

export async function evidenceRig(): Promise<EvidenceRig> {
  const root = mkdtempSync(join(tmpdir(), 'svc-evidence-'))
  const log = buildLog(join(root, 'log'), 7, 'ok')
  const older = log.older
  const pageOf = (filter: LogFilter, dir = 'log') =>
    evidenceOf([join(root, dir)], filter, { madeBy: 'a test', now: Date.parse(`${DAY}T12:00:00Z`) })
  buildLog(join(root, 'forged'), SEED_OF_STRANGER, 'error')
  return {
    root,
    page: await pageOf({ tenant: 'acme' }),
    forged: await pageOf({ tenant: 'acme' }, 'forged'),
    heads: [older, log.note()],
    journalLine: log.lines[0] ?? '',
    pageOf,
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}

function buildLog(dir: string, seed: number, status: string): LogBuilder & { older: string } {
  mkdirSync(dir)
  const log = new LogBuilder(dir, { seed })
  const sha256 = sha256Hex(definition)
  const event = { server: 'billing', kind: 'tool', name: 'refund', sha256, text: definition }
  log.record(DAY, { tool: 'definitions/serve@1', event, tenant: 'acme' })
  for (let i = 0; i < 6; i++) {
    log.record(DAY, {
      status,
      tenant: i % 2 === 0 ? 'acme' : 'beta',
      definition_sha256: sha256,
      ts: `${DAY}T1${i}:00:00Z`,
    })
  }
  log.seal()
  const older = log.note()
  for (let i = 0; i < 6; i++) log.record(DAY, { tool: `</script>\u202e${i}`, tenant: 'acme' })
  log.seal()
  return Object.assign(log.finish(), { older })
}

interface PythonEvidence {
  /** Why the file is not one. */
  readonly reason: string | null
  readonly failures: readonly (readonly [list: string, number: number, reason: string])[]
}

const verifier = fileURLToPath(new URL('../../../../../../../examples/verifier', import.meta.url))
const DRIVER = `
import json, sys
sys.path.insert(0, ${JSON.stringify(verifier)})
import evidence, keys, witnesses
out = []
for job in json.load(sys.stdin):
    named = witnesses.read_witness_keys(job["witnesses"]) if "witnesses" in job else ()
    with open(job["file"], "rb") as file:
        raw = file.read()
    try:
        out.append({"reason": None, "failures": evidence.check(raw, keys.read_keys(job["keys"]), named)[2]})
    except evidence.NotEvidence as error:
        out.append({"reason": str(error), "failures": []})
json.dump(out, sys.stdout)
`

export interface EvidenceJob {
  readonly title?: string
  readonly page: Uint8Array | string
  readonly keys?: string
  readonly witnesses?: string | undefined
}

/** The judgements of examples/verifier, in one process. */
function checkInPython(root: string, jobs: readonly EvidenceJob[]): PythonEvidence[] {
  const written = jobs.map(({ page, keys = keyLine, witnesses }, at) => {
    const path = (what: string) => join(root, `${at}.${what}`)
    writeFileSync(path('html'), page)
    writeFileSync(path('keys'), `${keys}\n`)
    if (witnesses !== undefined) writeFileSync(path('witnesses'), `${witnesses}\n`)
    return {
      file: path('html'),
      keys: path('keys'),
      ...(witnesses === undefined ? {} : { witnesses: path('witnesses') }),
    }
  })
  const { stdout, stderr, status } = spawnSync('python3', ['-B', '-c', DRIVER], {
    input: JSON.stringify(written),
    encoding: 'utf8',
    maxBuffer: 1e8,
    timeout: 120_000,
  })
  if (status !== 0) throw new Error(`python3: ${stderr}`)
  return JSON.parse(stdout)
}

const START = '<script type="application/json" id="evidence">'

/** The data as a browser has it. */
function shownData(page: Uint8Array | string): string {
  const text = Buffer.from(page).toString().replaceAll('\0', '\ufffd').replaceAll(/\r\n?/g, '\n')
  const start = text.indexOf(START) + START.length
  return text.slice(start, text.indexOf('<', start))
}

async function findInBrowserCode({ page, keys = keyLine, witnesses = '' }: EvidenceJob): Promise<string[]> {
  const evidence = readEvidence(shownData(page))
  if ('reason' in evidence) return ['page']
  const found: string[] = []
  for await (const { list, at, state } of judgeEvidence(
    evidence,
    webChecker(readVerifierKeys(`${keys}\n${witnesses}`)),
    sha256Hex,
  ))
    if (state !== 'ok') found.push(`${list} ${at + 1}`)
  return found.sort()
}

/** What all verifiers find, the same: `list number`, or `page` for the whole file. */
export async function findEverywhere(root: string, jobs: readonly EvidenceJob[]): Promise<string[][]> {
  const python = checkInPython(root, jobs)
  const found: string[][] = []
  for (const [at, job] of jobs.entries()) {
    const { page, keys = keyLine, witnesses, title = '' } = job
    const path = join(root, 'given.keys')
    writeFileSync(path, `${keys}\n`)
    const judged = await checkEvidence(
      Buffer.from(page),
      await readKeys(path),
      witnesses === undefined ? undefined : { keys: [parseWitnessKey(witnesses)] },
    )
    const inNode = judged.failures.map(({ list, number }) => `${list} ${number}`).sort()
    const inPython = python[at]!.failures.map(([list, number]) => `${list} ${number}`).sort()
    if (judged.reason !== undefined) inNode.unshift('page')
    if (python[at]!.reason !== null) inPython.unshift('page')
    expect(inPython, `${title}: ${python[at]!.reason} ${judged.reason}`).to.deep.equal(inNode)
    expect(judged.valid).to.equal(inNode.length === 0)
    // A page cannot see what was changed around its data.
    const isWhole = !/^(around|it is not UTF-8)/.test(judged.reason ?? '')
    if (isWhole) expect(await findInBrowserCode(job), `${title}, in browsers`).to.deep.equal(inNode)
    found.push(inNode)
  }
  return found
}
