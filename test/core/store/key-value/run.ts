// Checks a store against models: random operations of several clients, which crash, pause between a read and the write that
// depends on it, do not get a response, and have wall clocks that jump; the store may lose what it has.
import type { Counters, KeyValueStore } from '@svc/core'
import { Chance } from '../../../support/chance.js'
import { CountersCheck } from './counters-model.js'
import { KeyValueCheck } from './key-value-model.js'

export type Store = KeyValueStore & Counters

/** One store with several clients. */
export interface Deployment {
  /** A client; those of a store in memory are the same. */
  open(): Promise<Store>
  /** Lets milliseconds pass for the store. */
  advance(ms: number): Promise<void>
  /** Sets the wall clock of the clients wrong by so many milliseconds; the time of the store is to go on evenly. */
  jump(ms: number): void
  /** An instant that moves into the past as the time of a store is made to pass, and the instant for which windows are counted. */
  origin(): number
  instant(): number
  /** Removes all that the store has, where it can do so and live on. */
  lose?(): Promise<void>
  close(): Promise<void>
}

/** What a check of one port needs of the run. */
export interface World {
  readonly chance: Chance
  readonly deployment: Deployment
  readonly clients: readonly Store[]
  /** Milliseconds that have passed for the store. */
  readonly now: number
  passFor(ms: number): Promise<void>
}

/** One of its acts is a step. */
export interface PortCheck {
  readonly acts: readonly (() => Promise<void>)[]
  /** The store has lost what it had. */
  lost(): void
  /** A client has ended, and another one is in its place. */
  restarted(client: number): void
}

const checks = {
  'key-value': (world: World): PortCheck => new KeyValueCheck(world),
  counters: (world: World): PortCheck => new CountersCheck(world),
}

export type Port = keyof typeof checks
export const ports = Object.keys(checks) as readonly Port[]

export interface StoreCheck {
  readonly seed: number
  readonly steps: number
  readonly ports?: readonly Port[]
}

const CLIENTS = 3

/** @throws {Error} for the first difference */
export async function checkStore(
  deployment: Deployment,
  { seed, steps, ports: chosen = ports }: StoreCheck,
): Promise<void> {
  const run = new Run(deployment, new Chance(seed), chosen)
  await run.start()
  try {
    for (let step = 0; step < steps; step++) {
      await run.step().catch((cause: unknown) => {
        const message = cause instanceof Error ? cause.message : String(cause)
        throw new Error(`seed ${seed}, step ${step}: ${message}`, { cause })
      })
    }
  } finally {
    await run.close()
  }
}

class Run implements World {
  readonly deployment: Deployment
  readonly chance: Chance
  readonly clients: Store[] = []
  now = 0
  #checks: readonly PortCheck[]

  constructor(deployment: Deployment, chance: Chance, chosen: readonly Port[]) {
    this.deployment = deployment
    this.chance = chance
    this.#checks = chosen.map((port) => checks[port](this))
  }

  async start(): Promise<void> {
    for (let n = 0; n < CLIENTS; n++) this.clients.push(await this.deployment.open())
  }

  async close(): Promise<void> {
    for (const client of this.clients) await client.close?.()
  }

  async step(): Promise<void> {
    const lose = this.deployment.lose === undefined ? [] : [() => this.#lose()]
    const acts = this.#checks.flatMap((check) => check.acts)
    const own = [() => this.#pass(), () => this.#restart(), ...lose]
    const [first = own[0], ...others] = [...acts, ...own]
    await this.chance.pick([first as () => Promise<void>, ...others])()
  }

  async passFor(ms: number): Promise<void> {
    await this.deployment.advance(ms)
    this.now += ms
  }

  async #pass(): Promise<void> {
    if (this.chance.int(0, 1) === 1) this.deployment.jump(this.chance.pick([-86_400_000, 3_600_000, 0]))
    await this.passFor(this.chance.pick([600_000, 2_700_000, 3_000_000, 36_000_000]))
  }

  async #restart(): Promise<void> {
    const n = this.chance.int(0, CLIENTS - 1)
    await this.clients[n]?.close?.()
    this.clients[n] = await this.deployment.open()
    for (const check of this.#checks) check.restarted(n)
  }

  async #lose(): Promise<void> {
    if (this.chance.int(0, 2) > 0) return
    await this.deployment.lose?.()
    for (const check of this.#checks) check.lost()
  }
}
