// What every shape of a signed mandate offers to the checks that all of them pass.
import type { JsonObject, JsonValue } from '@svc/core/json'
import type { Jwt } from '../mandate/jwt.js'
import type { MandateContent } from './checked-mandate.js'

export interface SignedMandate {
  readonly shape: 'sd-jwt' | 'json' | 'jws'
  /** The same for the same mandate: two mandates of one kind must not differ. */
  readonly identity: string
  /** Signed by the issuer. */
  readonly issued: Jwt
  /** All tokens, the issuer's first. */
  readonly tokens: readonly Jwt[]
  /** Where time claims may be. */
  readonly claims: readonly JsonObject[]
  /** `aud` of the token that is presented to the gateway; each given one must be the gateway's. */
  readonly audiences: readonly (JsonValue | undefined)[]
  readonly subject: string | undefined
  /** The rules among its tokens. Rejects with `MandateFault`. */
  checkChain(): Promise<void>
  /** The content, its form and type checked. */
  read(): MandateContent
  /** The hashes that the content has of itself. */
  checkHashes(content: MandateContent): void
}
