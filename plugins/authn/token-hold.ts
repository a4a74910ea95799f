// A token is checked again directly before its call is sent: the call may have waited for a person, or for another call.
import { type Call, type Clock, type Denied, type Hold, Refusal } from '@svc/core'
import type { AccessCheck } from './access-check.js'
import type { VerifiedToken } from './token-cache.js'

export class TokenHold implements Hold {
  #call: Call
  #token: Pick<VerifiedToken, 'notAfter'>
  #accessCheck: AccessCheck
  #clock: Clock

  constructor(call: Call, token: Pick<VerifiedToken, 'notAfter'>, accessCheck: AccessCheck, clock: Clock) {
    this.#call = call
    this.#token = token
    this.#accessCheck = accessCheck
    this.#clock = clock
  }

  commit(): Denied | undefined {
    if (this.#clock.now() <= this.#token.notAfter) return undefined
    const expired = new Refusal('UNAUTHENTICATED', 'The token has expired while the call waited.')
    return this.#accessCheck.invalidToken(this.#call, expired)
  }

  release(): void {
    // Nothing is taken.
  }
}
