// A gateway, as a program has it that starts one.
import type { DependencyContainer } from 'tsyringe'

/** The addresses of a gateway that listens. */
export interface Listening {
  readonly port: number
  readonly url: string
  /** The URL of the admin listener, if the policy has one. */
  readonly adminUrl?: string
}

/** A running gateway. */
export interface GatewayHandle {
  /** Resolves when the gateway listens; rejects if it cannot. */
  ready(): Promise<Listening>
  /** Stops listening, waits for calls in flight, closes the log. May be called twice. */
  close(): Promise<void>
  /**
   * Puts a new policy (YAML text or an object) in force for the calls that follow. A policy that is not valid or cannot
   * start is refused, and the old one stays. Changed certificates are read; ports and addresses do not change.
   */
  reload(policy: string | Record<string, unknown>): Promise<void>
  readonly container: DependencyContainer
}
