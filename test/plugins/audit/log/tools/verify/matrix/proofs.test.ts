// The manipulations seen by a reader who has proofs and keys, and no copy of the log: the verifier for browsers and
// `checkProof` judge alike.

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readProof, readVerifierKeys, type VerifierKeys, webChecker } from '@svc/plugin-audit/browser'
import { KeyHistory } from '@svc/plugin-audit/internal/log/tree/key-history'
import { AuditError } from '@svc/plugin-audit/log'
import { checkProof, proveRecords, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { buildLog, Files } from './fixture.js'
import { manipulations } from './manipulations.js'

/** Proofs by the bytes of the record. */
const splitProofs = (text: string) => text.split(/(?=^c2sp\.org\/tlog-proof@v1$)/m)
const recordOf = (proof: string) =>
  Buffer.from(/^extra (.*)$/m.exec(proof)?.[1] ?? '', 'base64').toString('latin1')

describe('proofs of manipulated logs', function () {
  this.timeout(120_000)
  let root = ''
  let lines = ''
  let given: VerifierKeys
  let trusted: ReturnType<KeyHistory['allAt']>

  async function judge(proof: string): Promise<{ inNode: boolean; inBrowser: boolean }> {
    const read = readProof(proof)
    const checked = read && (await webChecker(given).check(read))
    return { inNode: (await checkProof(proof, trusted)).valid, inBrowser: checked?.state === 'ok' }
  }

  before(async () => {
    root = mkdtempSync(join(tmpdir(), 'svc-proofs-'))
    buildLog(join(root, 'template'))
    const { keySpans } = await verifyLog(join(root, 'template'))
    lines = keySpans
      .map(([key, from, until]) => [key, from, until].filter((part) => part !== null).join(' '))
      .join('\n')
    given = readVerifierKeys(lines)
    trusted = given.logs.flatMap(({ keyId, leaves }) => {
      const key = KeyHistory.of(keySpans).at(keyId, undefined)
      return key === undefined ? [] : [{ ...key, leaves }]
    })
  })

  after(() => rmSync(root, { recursive: true, force: true }))

  it('are judged alike by both verifiers, which accept no record that the log did not seal', async () => {
    const proofs = new Map<string, string>()
    const all = await proveRecords(join(root, 'template'), { until: '2026-11-21T10:00:00Z' })
    for (const proof of splitProofs(all)) proofs.set(recordOf(proof), proof)
    expect(proofs.size).to.be.at.least(20)
    for (const proof of proofs.values()) {
      expect(await judge(proof)).to.deep.equal({ inNode: true, inBrowser: true })
    }
    let changed = 0
    for (const [at, { title, build, tamper }] of manipulations.entries()) {
      const dir = join(root, `${at}`)
      if (build === undefined) cpSync(join(root, 'template'), dir, { recursive: true })
      const log = build === undefined ? buildLog(join(root, `${at}-own`)) : buildLog(dir, build)
      tamper?.(new Files(dir), log)
      for (const proof of await proofsOf(dir)) {
        const { inNode, inBrowser } = await judge(proof)
        expect(inBrowser, title).to.equal(inNode)
      }
      // What a reader may be shown in the place of a sealed record.
      for (const [line, proof] of replacedLines(dir, proofs)) {
        changed++
        const other = proof.replace(/^extra .*$/m, `extra ${Buffer.from(line, 'latin1').toString('base64')}`)
        expect(await judge(other), title).to.deep.equal({ inNode: false, inBrowser: false })
      }
    }
    expect(changed).to.be.at.least(50)
  })

  async function proofsOf(dir: string): Promise<string[]> {
    try {
      return splitProofs(await proveRecords(dir, {}))
    } catch (error) {
      // Many of these logs prove nothing.
      if (error instanceof AuditError || (error instanceof Error && 'code' in error)) return []
      throw error
    }
  }

  /** Lines that stand where a proven one was. */
  function replacedLines(dir: string, proofs: ReadonlyMap<string, string>): [string, string][] {
    const linesIn = (path: string) => readFileSync(path, 'latin1').split('\n').slice(0, -1)
    const names = readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isFile() && /^audit-.*\.ndjson$/.test(entry.name))
      .map(({ name }) => name)
    return names.flatMap((name) => {
      const template = join(root, 'template', name)
      if (!readdirSync(join(root, 'template')).includes(name)) return []
      const before = linesIn(template)
      return linesIn(join(dir, name)).flatMap((line, at): [string, string][] => {
        const proof = proofs.get(before[at] ?? '')
        return line === before[at] || proof === undefined ? [] : [[line, proof]]
      })
    })
  }
})
