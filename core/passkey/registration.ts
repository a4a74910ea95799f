// The registration of a passkey (W3C Web Authentication Level 3 §7.1): the challenge for the authenticator, and the key in its
// response.
import { createHash } from 'node:crypto'
import { canonicalize } from '../json/index.js'
import { relyingPartyOf } from './origin.js'
import { algorithms, type CoseKey, publicKeyIn } from './public-key.js'

/** The owner, the voters and the log for which a passkey is registered. */
export interface SignedEnrolment {
  readonly enrol: string
  /** The approval set whose members confirm it; null for reviewers of the tenant. */
  readonly approval_set_id: string | null
  readonly log_id: string | null
  readonly nonce: string
}

/** The response of an authenticator; binary members are base64url. */
export interface RegistrationResponse {
  readonly credentialId: string
  readonly clientDataJson: string
  readonly attestationObject: string
}

export function enrolmentChallengeOf(enrolment: SignedEnrolment): string {
  return createHash('sha256')
    .update(canonicalize({ ...enrolment }))
    .digest('base64url')
}

/** The public key in the response, as DER in base64. Rejects with `Error` if it is not the response to the challenge. */
export async function registeredKeyOf(
  challenge: string,
  origin: string,
  { credentialId: id, clientDataJson: clientDataJSON, attestationObject }: RegistrationResponse,
): Promise<string> {
  const expectedRPID = relyingPartyOf(origin)
  const [{ verifyRegistrationResponse }, { isoCBOR }] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ])
  const { verified, registrationInfo } = await verifyRegistrationResponse({
    response: {
      id,
      rawId: id,
      type: 'public-key',
      clientExtensionResults: {},
      response: { clientDataJSON, attestationObject },
    },
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID,
    requireUserVerification: true,
    supportedAlgorithmIDs: [...algorithms],
  })
  if (!verified) throw new Error('the attestation of the authenticator does not fit')
  // The id in the signed data of the authenticator; the id beside it is only a claim of the page.
  if (registrationInfo.credential.id !== id) throw new Error('the id is not that of the credential')
  return publicKeyIn(isoCBOR.decodeFirst<CoseKey>(registrationInfo.credential.publicKey))
}
