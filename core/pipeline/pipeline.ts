// Runs calls through composed stages, and starts and stops the stages in order.
import type { Call } from '../call/call.js'
import type { Credential } from '../call/credential.js'
import { failed, type Outcome } from '../call/outcome.js'
import { messageOf } from '../json/message.js'
import type { Token } from '../plugin/tokens.js'
import { compose, type Dispatch, type PlacedStage } from './compose.js'
import { settled } from './settle.js'

export class Pipeline {
  readonly stages: readonly PlacedStage[]
  #run: Dispatch
  #started: PlacedStage[] = []

  constructor(stages: readonly PlacedStage[], dispatch: Dispatch) {
    this.stages = stages
    this.#run = compose(stages, dispatch)
  }

  /**
   * Starts the stages from the upstream outward, so that a stage may rely on those inside it. If one
   * fails, it and those that were started stop in reverse, and all errors are thrown together.
   */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    for (const placed of [...this.stages].reverse()) {
      this.#started.push(placed)
      try {
        signal.throwIfAborted()
        await placed.stage.start?.(signal)
      } catch (cause) {
        const fault = new Error(`stage ${placed.name} did not start: ${messageOf(cause)}`, { cause })
        throw joined([fault, ...(await this.#stopStarted())])
      }
    }
  }

  /** Stops in reverse order of the start. Every stage is stopped; errors are thrown together. */
  async stop(): Promise<void> {
    const faults = await this.#stopStarted()
    if (faults.length > 0) throw joined(faults)
  }

  async #stopStarted(): Promise<Error[]> {
    const faults: Error[] = []
    for (const { name, stage } of this.#started.splice(0).reverse()) {
      try {
        await stage.stop?.()
      } catch (cause) {
        faults.push(new Error(`stage ${name} did not stop: ${messageOf(cause)}`, { cause }))
      }
    }
    return faults
  }

  /** Why the stages could not serve a call now, one line each; empty when they could. */
  unready(): string[] {
    return this.stages.flatMap(({ name, stage }) => {
      const reason = stage.ready?.()
      return reason === undefined ? [] : [`${name}: ${reason}`]
    })
  }

  /** What the gateway may show `server` on its own behalf; the innermost stage that has something wins. */
  async ownCredential(server: string): Promise<Credential | undefined> {
    for (const { stage } of [...this.stages].reverse()) {
      const credential = await stage.ownCredential?.(server)
      if (credential !== undefined) return credential
    }
    return undefined
  }

  /** What a stage gives the gateway outside any call; the outermost stage that has such a thing wins. */
  offer<T>(service: Token<T>): T | undefined {
    for (const { stage } of this.stages) {
      const offered = stage.offer?.(service)
      if (offered !== undefined) return offered
    }
    return undefined
  }

  /** What needs an operator though calls are served, one line each. */
  warnings(): string[] {
    return this.stages.flatMap(({ name, stage }) => {
      const warning = stage.warning?.()
      return warning === undefined ? [] : [`${name}: ${warning}`]
    })
  }

  /** Never rejects. A whole answer has settled when this resolves; a streamed one settles on its way. */
  async run(call: Call): Promise<Outcome> {
    let outcome = await this.#run(call)
    if (outcome.sent === 'no' && call.hasHolds) {
      try {
        await call.releaseHolds()
      } catch (cause) {
        outcome = failed('STORE_UNAVAILABLE', 'What was held for this call could not be given back.', {
          cause,
        })
      }
    }
    return settled(call, outcome)
  }
}

function joined(faults: readonly Error[]): Error {
  const [only] = faults
  if (only !== undefined && faults.length === 1) return only
  return new AggregateError(faults, faults.map(messageOf).join('; '))
}
