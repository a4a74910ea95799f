// Rounds in which duplicates come by several gateways and something happens at a moment chosen by chance: the upstream
// must never see a key twice, and every key comes to a definite end.
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import type { Answer, Fleet } from './fleet.js'

/** A gateway is killed, or stopped for longer than its leases last; or the store is killed. */
export type Mishap = 'kill' | 'pause' | 'store'

export interface Figures {
  /** Rounds in which a caller lost its connection, or found none. */
  broken: number
  answered: number
  unknown: number
  /** Of those, rounds in which a caller heard the first answer all the same. */
  heard: number
}

export const GATEWAYS = 3
const CALLERS = 6

/** Longest work of the upstream, latest moment of the mishap, and longest stop, in milliseconds. */
const WORK = 30
const LATEST = 60
const STOPPED = 1500

/** Milliseconds within which a key must have come to its end: leases are of a second. */
const PATIENCE = 20_000

/**
 * Runs `count` rounds on a fleet of `GATEWAYS`; the first has `seed`, each next one a seed higher. Rejects with the seed
 * that failed.
 */
export async function mishaps(fleet: Fleet, mishap: Mishap, count: number, seed: number): Promise<Figures> {
  const figures: Figures = { broken: 0, answered: 0, unknown: 0, heard: 0 }
  let chance = new Chance(seed)
  fleet.upstreamMs = () => chance.int(0, WORK)
  for (let each = seed; each < seed + count; each++) {
    chance = new Chance(each)
    try {
      await round(fleet, chance, { mishap, key: `${mishap}-${each}` }, figures)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the round with seed ${each} failed: ${reason}`, { cause })
    }
  }
  // Also after all that: no lease that lapsed has let a call out.
  const keys = fleet.upstream.calls.map(({ headers }) => String(headers['idempotency-key']))
  expect(new Set(keys).size, 'keys that were run twice').to.equal(keys.length)
  return figures
}

interface Round {
  readonly mishap: Mishap
  readonly key: string
}

async function round(fleet: Fleet, chance: Chance, { mishap, key }: Round, figures: Figures): Promise<void> {
  const victim = chance.int(0, GATEWAYS - 1)
  const at = chance.int(0, LATEST)
  let broken = 0
  const callers = Array.from({ length: CALLERS }, (_, caller) =>
    untilItEnds(fleet, { key, first: caller % GATEWAYS, after: chance.int(0, 20) }, () => broken++),
  )
  const happening = pause(at).then(() => happen(fleet, mishap, victim))
  const answers = await Promise.all(callers)
  await happening
  // One more, to whom the round is long over.
  answers.push(await untilItEnds(fleet, { key, first: victim, after: 0 }, () => undefined))
  judge(answers, fleet.runs(key))
  if (broken > 0) figures.broken++
  const last = answers.at(-1)
  if (last?.status === 200) figures.answered++
  else figures.unknown++
  if (broken > 0 && answers.some(({ mark }) => mark === 'first')) figures.heard++
}

function happen(fleet: Fleet, mishap: Mishap, victim: number): Promise<void> {
  switch (mishap) {
    case 'kill':
      return fleet.replace(victim)
    case 'pause':
      return fleet.pause(victim, STOPPED)
    case 'store':
      return fleet.restartStore()
  }
}

function judge(answers: readonly Answer[], runs: number): void {
  expect(runs, 'runs').to.be.at.most(1)
  const served = answers.filter(({ status }) => status === 200)
  // Whoever has an answer has the same, and the upstream gave it.
  expect(new Set(served.map(({ body }) => body)).size).to.be.at.most(1)
  if (served.length > 0) expect(runs).to.equal(1)
  expect(served.filter(({ mark }) => mark === 'first').length).to.be.at.most(1)
  // The only other end that there is.
  for (const { status, body } of answers) {
    if (status !== 200) expect(JSON.parse(body)).to.include({ error: 'IDEMPOTENT_OUTCOME_UNKNOWN' })
  }
}

interface Caller {
  readonly key: string
  readonly first: number
  /** Milliseconds. */
  readonly after: number
}

/** Asks one gateway after the other until it has an answer or is told that nobody knows. */
async function untilItEnds(
  fleet: Fleet,
  { key, first, after }: Caller,
  onBroken: () => void,
): Promise<Answer> {
  await pause(after)
  const giveUp = performance.now() + PATIENCE
  for (let attempt = 0; performance.now() < giveUp; attempt++) {
    let answer: Answer | undefined
    try {
      answer = await fleet.call((first + attempt) % fleet.size, key)
    } catch {
      // The gateway was killed, or the next one is not there yet.
      onBroken()
    }
    if (answer !== undefined && isDefinite(answer)) return answer
    await pause(20)
  }
  throw new Error(`${key} came to no end in time`)
}

function isDefinite({ status, body }: Answer): boolean {
  if (status === 200) return true
  const { error } = JSON.parse(body) as { error?: string }
  if (error === 'IDEMPOTENT_OUTCOME_UNKNOWN') return true
  expect(error).to.be.oneOf(['IDEMPOTENT_DUPLICATE', 'STORE_UNAVAILABLE'])
  return false
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
