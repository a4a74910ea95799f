// The operations of the admin API on passkeys that reviewers register.
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import { base64url, escalationSchema, nonceSchema } from './escalation-json.js'
import { requireEscalations } from './operations.js'

const setSchema = z.strictObject({
  approval_set_id: z
    .string()
    .min(1)
    .optional()
    .describe("The set of the client in which it counts; absent: that of the policy's rule, or the tenant."),
})

export const passkeyOperations: readonly Operation[] = [
  operation({
    method: 'POST',
    path: '/api/passkeys/challenge',
    name: 'challenge_passkey',
    summary:
      'Returns what an authenticator has to respond to, so that a passkey of the client is registered.',
    access: 'reader',
    isUnrecorded: true,
    body: setSchema,
    response: z.object({
      challenge: z.string().describe('Base64url.'),
      nonce: z.string(),
      rp_id: z.string(),
      credentials: z.array(z.string()).readonly().describe('The passkeys of the client that count already.'),
      user: z.object({ id: z.string(), name: z.string() }),
      algorithms: z.array(z.int()).readonly().describe('COSE identifiers.'),
    }),
    run: (request) => requireEscalations(request).enrolmentChallenge(request.body.approval_set_id),
  }),
  operation({
    method: 'POST',
    path: '/api/passkeys',
    name: 'enrol_passkey',
    summary: 'Opens the escalation by which others confirm a passkey of the client.',
    access: 'reader',
    isUnrecorded: true,
    body: setSchema.extend({
      nonce: nonceSchema,
      credential_id: base64url,
      client_data_json: base64url,
      attestation_object: base64url,
    }),
    response: escalationSchema,
    run(request) {
      const {
        approval_set_id: setId,
        nonce,
        credential_id,
        client_data_json,
        attestation_object,
      } = request.body
      return requireEscalations(request).enrol(setId, {
        nonce,
        credentialId: credential_id,
        clientDataJson: client_data_json,
        attestationObject: attestation_object,
      })
    },
  }),
  operation({
    method: 'POST',
    path: '/api/passkeys/:id/revoke',
    name: 'revoke_passkey',
    idOf: 'escalation',
    summary:
      "Ends a passkey, of which the id is that of its escalation: the client's own, or as operator any.",
    access: 'reader',
    isUnrecorded: true,
    body: z.strictObject({}),
    response: escalationSchema,
    run: (request) => requireEscalations(request).revoke(request.id ?? ''),
  }),
]
