// Rounds in which duplicates arrive at several gateways and a fault is injected at a random moment: the upstream must never
// receive a key twice, and every key must reach a definite outcome.
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import type { Fleet, HttpResponse } from './fleet.js'

/** A gateway is killed, or stopped for longer than its leases last; or the store is killed. */
export type Fault = 'kill' | 'pause' | 'store'

export interface Figures {
  /** Rounds in which a caller lost its connection, or found none. */
  broken: number
  responded: number
  unknown: number
  /** Of those, rounds in which a caller received the first response. */
  received: number
}

export const GATEWAYS = 3
const CALLERS = 6

/** Milliseconds: longest work of the upstream, latest moment of the fault, duration of a pause. */
const MAX_WORK = 30
const MAX_DELAY = 60
const PAUSE = 1500

/** Milliseconds within which a key must reach an outcome. A lease lasts one second. */
const MAX_WAIT = 20_000

/**
 * Runs `count` rounds on a fleet of `GATEWAYS`; the first has `seed`, each next one a seed higher. Rejects with the seed
 * that failed.
 */
export async function injectFaults(
  fleet: Fleet,
  fault: Fault,
  count: number,
  seed: number,
): Promise<Figures> {
  const figures: Figures = { broken: 0, responded: 0, unknown: 0, received: 0 }
  let chance = new Chance(seed)
  fleet.upstreamMs = () => chance.int(0, MAX_WORK)
  for (let each = seed; each < seed + count; each++) {
    chance = new Chance(each)
    try {
      await round(fleet, chance, { fault, key: `${fault}-${each}` }, figures)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the round with seed ${each} failed: ${reason}`, { cause })
    }
  }
  // An expired lease must not let a call be sent later either.
  const keys = fleet.upstream.calls.map(({ headers }) => String(headers['idempotency-key']))
  expect(new Set(keys).size, 'keys that ran twice').to.equal(keys.length)
  return figures
}

interface Round {
  readonly fault: Fault
  readonly key: string
}

async function round(fleet: Fleet, chance: Chance, { fault, key }: Round, figures: Figures): Promise<void> {
  const victim = chance.int(0, GATEWAYS - 1)
  const at = chance.int(0, MAX_DELAY)
  let broken = 0
  const callers = Array.from({ length: CALLERS }, (_, caller) =>
    callUntilDefinite(fleet, { key, first: caller % GATEWAYS, after: chance.int(0, 20) }, () => broken++),
  )
  const injected = pause(at).then(() => inject(fleet, fault, victim))
  const responses = await Promise.all(callers)
  await injected
  // A duplicate follows after the round.
  responses.push(await callUntilDefinite(fleet, { key, first: victim, after: 0 }, () => undefined))
  judge(responses, fleet.runs(key))
  if (broken > 0) figures.broken++
  const last = responses.at(-1)
  if (last?.status === 200) figures.responded++
  else figures.unknown++
  if (broken > 0 && responses.some(({ mark }) => mark === 'first')) figures.received++
}

function inject(fleet: Fleet, fault: Fault, victim: number): Promise<void> {
  switch (fault) {
    case 'kill':
      return fleet.replace(victim)
    case 'pause':
      return fleet.pause(victim, PAUSE)
    case 'store':
      return fleet.restartStore()
  }
}

function judge(responses: readonly HttpResponse[], runs: number): void {
  expect(runs, 'runs').to.be.at.most(1)
  const served = responses.filter(({ status }) => status === 200)
  // All callers with a response have the same one, from the upstream.
  expect(new Set(served.map(({ body }) => body)).size).to.be.at.most(1)
  if (served.length > 0) expect(runs).to.equal(1)
  expect(served.filter(({ mark }) => mark === 'first').length).to.be.at.most(1)
  // There is only one other outcome.
  for (const { status, body } of responses) {
    if (status !== 200) expect(JSON.parse(body)).to.include({ error: 'IDEMPOTENT_OUTCOME_UNKNOWN' })
  }
}

interface Caller {
  readonly key: string
  readonly first: number
  /** Milliseconds. */
  readonly after: number
}

/** Calls one gateway after the other until the response is definite. */
async function callUntilDefinite(
  fleet: Fleet,
  { key, first, after }: Caller,
  onBroken: () => void,
): Promise<HttpResponse> {
  await pause(after)
  const deadline = performance.now() + MAX_WAIT
  for (let attempt = 0; performance.now() < deadline; attempt++) {
    let response: HttpResponse | undefined
    try {
      response = await fleet.call((first + attempt) % fleet.size, key)
    } catch {
      // The gateway was killed, or its successor does not listen yet.
      onBroken()
    }
    if (response !== undefined && isDefinite(response)) return response
    await pause(20)
  }
  throw new Error(`${key} has no outcome in time`)
}

function isDefinite({ status, body }: HttpResponse): boolean {
  if (status === 200) return true
  const { error } = JSON.parse(body) as { error?: string }
  if (error === 'IDEMPOTENT_OUTCOME_UNKNOWN') return true
  expect(error).to.be.oneOf(['IDEMPOTENT_DUPLICATE', 'STORE_UNAVAILABLE'])
  return false
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
