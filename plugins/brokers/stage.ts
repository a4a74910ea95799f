// Sets the credential of a call. A call that needs a credential and has none is not sent.
import {
  abortable,
  type Call,
  type Credential,
  credential,
  type DoctorCheck,
  type Failed,
  failed,
  judgedOnly,
  type Next,
  type Outcome,
  Refusal,
  type Stage,
} from '@svc/core'
import type { Broker } from './broker.js'
import { BrokerError } from './broker-error.js'

export class BrokersStage implements Stage {
  // A call that is only judged gets no credential.
  readonly effects = 'stores'
  readonly doctor: () => Promise<readonly DoctorCheck[]>
  #brokers: ReadonlyMap<string, Broker>

  /** `brokers` has the broker of each server. */
  constructor(brokers: ReadonlyMap<string, Broker>, doctor: () => Promise<readonly DoctorCheck[]>) {
    this.#brokers = brokers
    this.doctor = doctor
  }

  async start(): Promise<void> {
    for (const broker of this.#brokers.values()) broker.start?.()
  }

  async stop(): Promise<void> {
    for (const broker of this.#brokers.values()) await broker.stop?.()
  }

  async handle(call: Call, next: Next): Promise<Outcome> {
    const { server } = await call.request()
    const broker = this.#brokers.get(server)
    if (call.isNoted)
      call.note(
        broker?.describe() ?? `server "${server}" has no broker: the call is sent without a credential`,
      )
    if (broker === undefined) return next()
    if (call.get(judgedOnly) !== undefined) {
      const reason = broker.unavailableReason?.(call)
      return reason === undefined ? next() : unavailable(server, reason)
    }
    try {
      call.set(credential, await abortable(call.abortState, broker.forCall(call)))
    } catch (error) {
      if (error instanceof BrokerError) return unavailable(server, error.publicMessage, error)
      throw error
    }
    return next()
  }

  async ownCredential(server: string): Promise<Credential | undefined> {
    try {
      return await this.#brokers.get(server)?.own?.()
    } catch (cause) {
      if (!(cause instanceof BrokerError)) throw cause
      throw new Refusal('BROKER_UNAVAILABLE', sentence(server, cause.publicMessage), { cause })
    }
  }
}

function unavailable(server: string, why: string, cause?: BrokerError): Failed {
  return failed('BROKER_UNAVAILABLE', sentence(server, why), cause === undefined ? {} : { cause })
}

function sentence(server: string, why: string): string {
  return `The credential for server "${server}" is not available: ${why}.`
}
