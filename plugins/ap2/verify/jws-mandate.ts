// A compact JWS whose payload is a v0.2 mandate with the registered claims of a JWT: a profile of this gateway.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { isOpen, parseBody } from '../mandate/bodies.js'
import type { Jwt } from '../mandate/jwt.js'
import { idOf } from './chain-mandate.js'
import type { MandateContent } from './checked-mandate.js'
import { actionOf, checkCheckoutHash, openMandate, termsOf } from './content.js'
import type { SignedMandate } from './signed-mandate.js'

export class JwsMandate implements SignedMandate {
  readonly shape = 'jws'
  readonly issued: Jwt

  constructor(jwt: Jwt) {
    this.issued = jwt
  }

  get identity(): string {
    return this.issued.text
  }

  get tokens(): readonly Jwt[] {
    return [this.issued]
  }

  get claims(): readonly JsonObject[] {
    return [this.issued.payload]
  }

  get audiences(): readonly (JsonValue | undefined)[] {
    return [this.issued.payload['aud']]
  }

  get subject(): string | undefined {
    const { sub } = this.issued.payload
    return typeof sub === 'string' ? sub : undefined
  }

  async checkChain(): Promise<void> {
    // One token.
  }

  read(): MandateContent {
    const { payload, text } = this.issued
    const id = idOf(this.issued)
    const body = parseBody(payload)
    if (isOpen(body)) {
      const open = openMandate(body, payload, { text, hidesTerms: false })
      return { id, open: [open], action: undefined, terms: {}, used: [] }
    }
    const action = actionOf(body, 'sha-256')
    return { id, open: [], action, terms: termsOf(action), used: [this.issued] }
  }

  checkHashes({ action }: MandateContent): void {
    checkCheckoutHash(action, 'sha-256')
  }
}
