// Signatures of tokens; jose does all cryptography.
import { compactVerify, importJWK } from 'jose'
import { fitsAlgorithm, type PublicJwk } from '../keys/verification-key.js'
import type { Jwt } from '../mandate/jwt.js'

/** Whether the token is signed with this key. A key for another algorithm than the token's verifies nothing. */
export async function isSignedWith(jwk: PublicJwk, { text, alg }: Jwt): Promise<boolean> {
  if (!fitsAlgorithm(jwk, alg)) return false
  try {
    await compactVerify(text, await importJWK({ ...jwk }, alg), { algorithms: [alg] })
    return true
  } catch {
    // jose throws for a wrong signature and for a key that is no point of its curve.
    return false
  }
}
