// The `audit` section.
import { z } from 'zod'
import { witnessError } from './log/cosigning/config.js'
import type { AuditEnvelope } from './log/format/envelope.js'
import { isDay, isOrigin } from './log/format/journal-line.js'
import { presignError } from './log/upload/presign.js'

type Append = (envelope: AuditEnvelope) => Promise<void>

const day = () => z.string().refine(isDay, 'expected YYYY-MM-DD')
const milliseconds = () => z.number().int().min(1).max(2_147_483_647)

const presignSchema = z
  .strictObject({
    apiBaseUrl: z.string().min(1).describe('Base address of the control plane.'),
    auditKey: z
      .string()
      .min(1)
      .describe('The whole `Authorization` header, `Bearer <API_KEY>`; best taken from the environment.'),
    tenant: z
      .string()
      .min(1)
      .optional()
      .describe('Tenant of the upload; if one of the four is missing, the control plane is asked.'),
    environment: z.string().min(1).optional().describe('Environment of the upload.'),
    clientName: z.string().min(1).optional().describe('Client of the upload.'),
    clientVersion: z.string().min(1).optional().describe('Its version. An OIDC token needs all four.'),
    timeoutMs: milliseconds().default(10_000).describe('For each call to the control plane.'),
    intervalMs: milliseconds().default(10_000).describe('Interval between checks for new bytes.'),
    maxDelayMs: milliseconds()
      .default(900_000)
      .describe('How long new bytes may wait for their upload before `/readyz` warns.'),
  })
  .superRefine((presign, context) => {
    const error = presignError(presign)
    if (error !== undefined) context.addIssue({ code: 'custom', path: [error.field], message: error.what })
  })

export const auditSchema = z
  .strictObject({
    gatewayName: z.string().min(1).describe('Name of this gateway in records.'),
    gatewayVersion: z.string().min(1).describe('Version of this gateway in records.'),
    clientName: z
      .string()
      .min(1)
      .optional()
      .describe('Client application in records; default: that of `presign`, else the gateway name.'),
    clientVersion: z
      .string()
      .min(1)
      .optional()
      .describe('Client version in records; default: that of `presign`, else the gateway version.'),
    environment: z
      .string()
      .min(1)
      .optional()
      .describe('Environment in records, such as prod; default: that of `presign`, else `dev`.'),
    retention: z.string().min(1).default('standard').describe('Retention class in records.'),
    dir: z.string().min(1).optional().describe('Directory of the log; `<sec0Dir>/audit` by default.'),
    retentionDays: z.number().int().min(1).default(365).describe('Days that daily files are kept.'),
    minFreeMb: z
      .number()
      .min(0)
      .default(512)
      .describe('Mebibytes of free disk below which `/readyz` warns; 0: never.'),
    signer: z
      .strictObject({
        keyRef: z
          .string()
          .regex(/^file:\/\//, 'expected file://PATH; a plugin that binds the signer has other keys')
          .optional()
          .describe(
            '`file://` and the path of an Ed25519 key file; left out if a plugin or code binds the signer.',
          ),
        retiringKeyRef: z
          .string()
          .regex(/^file:\/\//, 'expected file://PATH; a plugin that binds the signer has other keys')
          .optional()
          .describe('The key before it: introduces the new one to the log, and signs checkpoints too.'),
      })
      .optional()
      .describe('The key that signs records; not needed if code binds a signer or passes `append`.'),
    threads: z
      .enum(['auto', 'on', 'off'])
      .default('auto')
      .describe(
        'A thread that signs records in parallel to the event loop; `auto`: on if there is a core more than workers.',
      ),
    checkpoints: z
      .boolean()
      .default(true)
      .describe(
        'False: no checkpoints, and missing records are not detected; for a signer without a public key.',
      ),
    checkpointIntervalMs: z
      .number()
      .int()
      .min(100)
      .max(86_400_000)
      .default(10_000)
      .describe('How often new records are sealed by a signed checkpoint, milliseconds.'),
    log: z
      .strictObject({
        origin: z
          .string()
          .refine(isOrigin, 'expected a name with a dot, without spaces and plus signs')
          .optional()
          .describe(
            'Name of a new log in its checkpoints, such as `audit.example.com/prod`; default `<gatewayName>.svc-audit/<its id>`.',
          ),
        witnesses: z
          .array(
            z.strictObject({
              url: z.string().min(1).describe('Its address: requests go to `<url>/add-checkpoint`.'),
              key: z.string().min(1).describe('Its verifier key, as `npx svc-sdk audit witness` prints it.'),
            }),
          )
          .min(1)
          .optional()
          .describe('Witnesses that cosign checkpoints, in the background.'),
        quorum: z
          .number()
          .int()
          .min(1)
          .optional()
          .describe('How many witnesses a checkpoint needs, default all; fewer cause a `/readyz` warning.'),
      })
      .superRefine(({ witnesses, quorum }, context) => {
        const error = witnesses
          ? witnessError(witnesses, quorum ?? witnesses.length)
          : quorum && 'a quorum needs witnesses'
        if (error) context.addIssue({ code: 'custom', path: ['witnesses'], message: error })
      })
      .optional()
      .describe('The log itself.'),
    hold: z
      .array(
        z.strictObject({
          tenant: z.string().min(1).optional().describe('Only days with records of this tenant.'),
          from: day().optional().describe('The first day; absent: no bound.'),
          to: day().optional().describe('The last day; absent: no bound.'),
        }),
      )
      .default([])
      .describe('Days that retention does not remove.'),
    failure_mode: z
      .enum(['block', 'continue'])
      .default('block')
      .describe('`block`: no record, no response. `continue`: serve, and count the loss.'),
    append: z
      .custom<Append>((value) => typeof value === 'function', 'expected a function (from code only)')
      .optional()
      .describe('From code only: writes each record in place of the built-in writer.'),
    intent: z
      .enum(['off', 'side_effects', 'all'])
      .default('side_effects')
      .describe('Which calls have their intent on disk before they are sent.'),
    presign: presignSchema.optional().describe('Uploads the log to a control plane; absent: no upload.'),
    raw_payloads: z
      .boolean()
      .default(false)
      .describe('Also records redacted previews of requests and responses. Needs `presign`.'),
    rawPreviewBytes: z
      .number()
      .int()
      .min(16)
      .max(1_048_576)
      .default(4_096)
      .describe('Maximum size of a preview, bytes.'),
  })
  .superRefine((audit, context) => {
    const refuse = (key: string, message: string) =>
      context.addIssue({ code: 'custom', path: [key], message })
    if (audit.raw_payloads && audit.presign === undefined) {
      refuse('raw_payloads', 'raw_payloads needs audit.presign, which says whose payloads they are')
    }
    for (const key of ['environment', 'clientName', 'clientVersion'] as const) {
      const ofUpload = audit.presign?.[key]
      if (audit[key] === undefined || ofUpload === undefined || audit[key] === ofUpload) continue
      refuse(key, `is "${audit[key]}" and presign.${key} is "${ofUpload}"; give one, or both the same`)
    }
    if (audit.log?.witnesses !== undefined && !audit.checkpoints) {
      refuse('checkpoints', 'log.witnesses cosign checkpoints; leave them on')
    }
    if (audit.presign !== undefined && audit.append !== undefined) {
      refuse('presign', 'presign is for the built-in writer; leave it out, or leave out audit.append')
    }
  })
  .describe('The signed record of every call.')

export type AuditConfig = z.output<typeof auditSchema>
