// Casts a vote. If it needs a passkey, the browser asks its user first, for a signature of the gateway's challenge. Registers
// passkeys, too.
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import type { VoteResultJson } from '../../../escalations/operations.js'
import type { Api } from './api.js'

interface Challenge {
  readonly challenge: string
  readonly nonce: string
  readonly rp_id: string
  readonly credentials: readonly string[]
  /** The challenge of each vote, if there are several. */
  readonly batch?: readonly string[]
}

interface Vote {
  readonly vote: 'approve' | 'reject'
  readonly comment?: string
  readonly input_sha256?: string
}

/** Rejects with `ApiError`, or with the browser's error if its user gives no signature. */
export async function castVote(
  api: Pick<Api, 'send'>,
  { id, requires }: Pick<EscalationJson, 'id' | 'requires'>,
  vote: Vote,
): Promise<void> {
  const path = `/api/escalations/${encodeURIComponent(id)}`
  const passkey =
    requires === undefined
      ? undefined
      : await sign(await api.send<Challenge>('POST', `${path}/challenge`, vote))
  await api.send('POST', `${path}/votes`, { ...vote, ...(passkey === undefined ? {} : { passkey }) })
}

/** Casts the same vote on several calls, with one signature, and resolves to the result of each. Rejects as `castVote`. */
export async function castVotes(
  api: Pick<Api, 'send'>,
  votes: Omit<Vote, 'input_sha256'> & {
    readonly escalations: readonly (Pick<EscalationJson, 'id'> & Pick<Vote, 'input_sha256'>)[]
  },
  needsPasskey: boolean,
): Promise<readonly VoteResultJson[]> {
  const path = '/api/escalations'
  const passkey = needsPasskey
    ? { passkey: await sign(await api.send<Challenge>('POST', `${path}/challenge`, votes)) }
    : {}
  const response = await api.send<{ readonly results: readonly VoteResultJson[] }>('POST', `${path}/votes`, {
    ...votes,
    ...passkey,
  })
  return response.results
}

async function sign({ challenge, nonce, rp_id: rpId, credentials, batch }: Challenge): Promise<object> {
  const credential = await navigator.credentials.get({
    publicKey: {
      challenge: bytesOf(challenge),
      rpId,
      userVerification: 'required',
      allowCredentials: credentials.map((id) => ({ type: 'public-key', id: bytesOf(id) })),
    },
  })
  if (!(credential instanceof PublicKeyCredential))
    throw new Error('The browser has no passkey for this vote.')
  const { response } = credential
  if (!(response instanceof AuthenticatorAssertionResponse))
    throw new Error('The passkey did not sign the vote.')
  return {
    nonce,
    credential_id: credential.id,
    authenticator_data: base64urlOf(response.authenticatorData),
    client_data_json: base64urlOf(response.clientDataJSON),
    signature: base64urlOf(response.signature),
    ...(batch === undefined ? {} : { batch }),
  }
}

interface EnrolmentChallenge extends Challenge {
  readonly user: { readonly id: string; readonly name: string }
  readonly algorithms: readonly number[]
}

/** Resolves to the escalation by which others confirm the passkey. Rejects as `castVote`. */
export async function registerPasskey(
  api: Pick<Api, 'send'>,
  setId: string | undefined,
): Promise<EscalationJson> {
  const set = setId === undefined ? {} : { approval_set_id: setId }
  const { challenge, nonce, rp_id, credentials, user, algorithms } = await api.send<EnrolmentChallenge>(
    'POST',
    '/api/passkeys/challenge',
    set,
  )
  const credential = await navigator.credentials.create({
    publicKey: {
      challenge: bytesOf(challenge),
      rp: { id: rp_id, name: 'svc' },
      user: { id: bytesOf(user.id), name: user.name, displayName: user.name },
      pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
      excludeCredentials: credentials.map((id) => ({ type: 'public-key', id: bytesOf(id) })),
      authenticatorSelection: { userVerification: 'required' },
      attestation: 'none',
    },
  })
  if (!(credential instanceof PublicKeyCredential)) throw new Error('The browser registered no passkey.')
  const { response } = credential
  if (!(response instanceof AuthenticatorAttestationResponse))
    throw new Error('The browser registered no passkey.')
  return api.send<EscalationJson>('POST', '/api/passkeys', {
    ...set,
    nonce,
    credential_id: credential.id,
    client_data_json: base64urlOf(response.clientDataJSON),
    attestation_object: base64urlOf(response.attestationObject),
  })
}

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(text, (one) => one.charCodeAt(0))
}

function base64urlOf(bytes: ArrayBuffer): string {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)))
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
