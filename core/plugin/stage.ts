// The one interface every part of the pipeline implements, ours and yours.
import type { Call } from '../call/call.js'
import type { Credential } from '../call/credential.js'
import type { MaybePromise, Outcome } from '../call/outcome.js'
import type { Token } from './tokens.js'

/** The rest of the pipeline. At most once per call. */
export type Next = () => MaybePromise<Outcome>

export interface Stage {
  /** Opens what the stage needs. `signal` fires when start-up is given up. */
  start?(signal: AbortSignal): Promise<void>
  /**
   * Returns a refusal, or what `next()` gives, perhaps wrapped; without a promise where it need not wait. A throw or
   * rejection is a fault: the stages outside it see the failure as a value.
   */
  handle(call: Call, next: Next): MaybePromise<Outcome>
  /** Frees what `start` opened. Safe twice, and without a start. */
  stop?(): Promise<void>
  /** Whether the stage could serve a call now; a reason when not. For `/readyz`. */
  ready?(): string | undefined
  /** What needs an operator though the stage can serve. For `/readyz`. */
  warning?(): string | undefined
  /**
   * The credential for what the gateway asks `server` on its own behalf, outside any call, such as an MCP
   * server's version; undefined where this stage has none. Rejects with `Refusal` when it cannot be had.
   */
  ownCredential?(server: string): Promise<Credential | undefined>
  /** What the stage gives the gateway outside any call (`services`); undefined where it has no such thing. */
  offer?<T>(service: Token<T>): T | undefined
  /**
   * For `svc policy explain`: says what the stage would do, without any effect outside the call.
   * A stage without it is passed over, and the explanation says so.
   */
  explain?(call: Call, next: Next, say: (line: string) => void): MaybePromise<Outcome>
}
