// An experiment is a number of rounds that differ by their seed alone.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LocalDevSigner, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { type VerifyReport, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { signer } from '../../plugins/audit/log/writer/records.js'
import { Chance } from '../../support/chance.js'

/** The figures by name. */
export type Figures = Readonly<Record<string, number | string>>

export interface Experiment {
  readonly name: string
  /** Rounds in `npm run chaos:audit`. */
  readonly full: number
  /** Rounds in `npm test`. */
  readonly short: number
  /** Runs `count` rounds; the first has `seed`, each next one a seed higher. Rejects with the seed that failed. */
  rounds(count: number, seed: number): Promise<Figures>
}

/** Runs `round` with a seed and a directory of its own each time; adds the figures up. */
export async function eachRound(
  count: number,
  seed: number,
  round: (chance: Chance, dir: string) => Promise<Figures>,
): Promise<Figures> {
  const sums: Record<string, number | string> = {}
  for (let each = seed; each < seed + count; each++) {
    const dir = await mkdtemp(join(tmpdir(), 'svc-chaos-'))
    try {
      const figures = await round(new Chance(each), dir)
      for (const [name, figure] of Object.entries(figures)) {
        sums[name] = typeof figure === 'number' ? Number(sums[name] ?? 0) + figure : figure
      }
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the round with seed ${each} failed: ${reason}`, { cause })
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  }
  return sums
}

/** Fails unless the log is intact, sealed to its last record, and without torn lines. */
export async function expectIntact(dir: string, by: LocalDevSigner = signer): Promise<VerifyReport> {
  const report = await verifyLog(dir, { keys: [verifierFromPublicKey(by.publicKey)] })
  // This is checked first, because its message is the most specific.
  expect(report.failures).to.deep.equal([])
  expect(report).to.deep.include({ verdict: 'intact', tornTails: [], unsealed: 0 })
  expect(report.checkpoints).to.be.greaterThan(0)
  expect(report.sealed).to.equal(report.records)
  return report
}

/** Fails if a member occurs twice, or one of `needed` does not occur. */
export function expectOnceEach(found: readonly string[], needed: readonly string[]): void {
  const set = new Set(found)
  expect(found.length - set.size, 'doubled records').to.equal(0)
  expect(
    needed.filter((one) => !set.has(one)),
    'acknowledged records that are missing',
  ).to.deep.equal([])
}
