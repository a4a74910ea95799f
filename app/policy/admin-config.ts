// The `admin` section of a policy: the admin listener, its token and its reviewers.

import { isIP } from 'node:net'
import { isUrl } from '@svc/core/json'
import { keyRefSchema } from '@svc/core/policy'
import { z } from 'zod'
import { allowedHostsSchema, isLocalAddress } from '../http/allowed-hosts.js'
import { publicUrlSchema } from '../http/public-url.js'
import { tlsSchema } from '../http/tls/certificates.js'

/** The beginnings of SubjectPublicKeyInfo of P-256, of Ed25519 and of RSA, in base64. */
const publicKeyForm =
  /^(?:MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE[A-Za-z0-9+/]{86}==|MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=|MII[A-Za-z0-9+/]{100,}={0,2})$/

const names = z.array(z.string().min(1))

const approvalSetSchema = z
  .strictObject({
    users: names.default([]).describe("Its members by name: the token's user or subject."),
    reviewer_roles: names.default([]).describe('Roles whose users are members.'),
  })
  .describe('An approval set: reviewers of any tenant.')

export const adminSchema = z
  .strictObject({
    port: z.int().min(0).max(65_535).describe('TCP port to listen on; 0 picks a free one.'),
    host: z
      .string()
      .min(1)
      .default('127.0.0.1')
      .describe('Address to listen on; one that is not loopback needs tokenRef.'),
    allowedHosts: allowedHostsSchema.describe(
      'Host names that the listener responds to, beside its addresses; *.example.com means subdomains, * any name.',
    ),
    publicUrl: publicUrlSchema.describe(
      'URL under which people reach the listener through a proxy, for links to its pages. Default: http://localhost:<port>.',
    ),
    tls: tlsSchema.describe('TLS on the port of this listener; plain HTTP if absent.'),
    tokenRef: keyRefSchema
      .optional()
      .describe(
        'The key reference (env:NAME, file://PATH or command:NAME) of the admin token, of at least 16 characters.',
      ),
    roles: z
      .strictObject({
        viewer: names.default([]).describe('May read metrics, and escalations without their input.'),
        reviewer: names
          .default([])
          .describe(
            "May read and vote on their tenant's escalations. Without any, only members of approval sets may vote.",
          ),
        auditor: names.default([]).describe('May read everything, of every tenant, and change nothing.'),
        operator: names.default([]).describe('May do what the admin token may.'),
      })
      .prefault({})
      .describe("The rights of users here, by the roles of their tokens: each key lists the token's roles."),
    console: z
      .strictObject({
        clientId: z
          .string()
          .min(1)
          .optional()
          .describe(
            'The public client as which people sign in at authn.oidc.issuer; its redirect URI is <publicUrl>/console/callback.',
          ),
        edit: z
          .boolean()
          .default(false)
          .describe('Whether operators may turn tools off and on in the console, as blocks of a tool.'),
      })
      .prefault({})
      .describe('The web pages at /console.'),
    approval_sets: z
      .record(z.string().min(1), approvalSetSchema)
      .default({})
      .describe(
        'Approval sets by id: only the members of a set vote on escalations that name it (approval_set_id).',
      ),
    passkeys: z
      .array(
        z.strictObject({
          user: z
            .string()
            .min(1)
            .optional()
            .describe("The reviewer, by the token's user or subject; absent: the holder of the admin token."),
          id: z
            .string()
            .regex(/^[A-Za-z0-9_-]{16,}$/, 'expected base64url')
            .describe('Id of the credential.'),
          public_key: z
            .string()
            .regex(publicKeyForm, 'expected a DER public key of ES256, EdDSA or RS256 in base64')
            .describe('Its public key: DER SubjectPublicKeyInfo in base64.'),
        }),
      )
      .default([])
      .describe('Passkeys of reviewers, for rules with `require: passkey`.'),
  })
  .superRefine(({ passkeys, publicUrl }, context) => {
    if (passkeys.length === 0 || publicUrl === undefined || !isUrl(publicUrl)) return
    if (isIP(new URL(publicUrl).hostname.replace(/^\[(.*)\]$/, '$1')) === 0) return
    const message = 'passkeys do not work on an IP address; accepted is a name'
    context.addIssue({ code: 'custom', path: ['publicUrl'], message })
  })
  .superRefine(({ host, tokenRef }, context) => {
    if (tokenRef === undefined && !isLocalAddress(host)) {
      const message =
        'not a loopback address, and there is no tokenRef: every client could read metrics and escalations; set tokenRef or listen on 127.0.0.1'
      context.addIssue({ code: 'custom', path: ['host'], message })
    }
  })
  .describe('The listener for operators and reviewers; none if absent.')

export type AdminConfig = z.output<typeof adminSchema>
