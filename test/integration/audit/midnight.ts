// Two writers whose clocks disagree and are set back and forth over midnight, with bursts that begin before it
// and end after. Every record stands in its own day's file, in order, and the days' checkpoints hold together.

import { expect } from 'chai'
import { appenderIn, envelope, fixedClock, recordsOf } from '../../plugins/audit/log/writer/records.js'
import type { Chance } from '../../support/chance.js'
import { type Experiment, eachRound, expectIntact, expectOnceEach, type Figures } from './experiment.js'

const MIDNIGHT = Date.parse('2026-11-22T00:00:00Z')
const HOUR = 3_600_000
const STEPS = 25

export const midnight: Experiment = {
  name: 'midnight',
  full: 200,
  short: 3,
  rounds: (count, seed) => eachRound(count, seed, round),
}

async function round(chance: Chance, dir: string): Promise<Figures> {
  const errors: Error[] = []
  const writers = ['a', 'b'].map((name) => {
    const clock = fixedClock('2026-11-21T23:00:00Z')
    const appender = appenderIn(dir, { clock, onAsyncError: (error) => errors.push(error) })
    // Spans by day, as they were appended.
    return { name, clock, appender, days: new Map<string, string[]>() }
  })
  let crossing = 0
  let serial = 0
  for (let step = 0; step < STEPS; step++) {
    const writer = writers[chance.int(0, 1)]
    if (writer === undefined) continue
    const { clock, appender, days, name } = writer
    const count = chance.int(1, 20)
    const crosses = count > 1 && chance.int(0, 2) === 0
    if (crosses) crossing++
    // Forwards, back, or to just before midnight.
    clock.ms = crosses ? MIDNIGHT - chance.int(1, count - 1) : MIDNIGHT + chance.int(-2 * HOUR, 2 * HOUR)
    const written = Array.from({ length: count }, () => {
      const ts = new Date(clock.ms++).toISOString()
      const record = envelope({ ts, span_id: `${name}${serial++}` })
      days.set(ts.slice(0, 10), [...(days.get(ts.slice(0, 10)) ?? []), record.span_id])
      return appender.append(record)
    })
    // Sometimes the burst of the other writer begins during this one.
    if (chance.int(0, 2) > 0) await Promise.all(written)
    else void Promise.all(written).catch((error: Error) => errors.push(error))
    if (chance.int(0, 3) === 0) await appender.seal()
  }
  for (const { appender } of writers) await appender.close()
  expect(errors, 'errors in the background').to.deep.equal([])

  let records = 0
  for (const day of new Set(writers.flatMap(({ days }) => [...days.keys()]))) {
    const found = recordsOf(dir, `audit-${day}.ndjson`)
    expect(new Set(found.map(({ ts }) => ts.slice(0, 10)))).to.deep.equal(new Set([day]))
    const spans = found.map(({ span_id }) => span_id)
    for (const { name, days } of writers) {
      const own = days.get(day) ?? []
      expect(
        spans.filter((span) => span.startsWith(name)),
        `order of ${name} on ${day}`,
      ).to.deep.equal(own)
    }
    expectOnceEach(
      spans,
      writers.flatMap(({ days }) => days.get(day) ?? []),
    )
    records += spans.length
  }
  const report = await expectIntact(dir)
  expect(report.records).to.equal(records)
  return { records, 'batches over midnight': crossing }
}
