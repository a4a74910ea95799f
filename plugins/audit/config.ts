// The `audit` section (contract.md §2.14, decisions.md §4 and §7).
import { notYet } from '@svc/core'
import { z } from 'zod'
import type { AuditEnvelope } from './envelope.js'

type Append = (envelope: AuditEnvelope) => Promise<void>

export const auditSchema = z
  .strictObject({
    gatewayName: z.string().min(1).describe('Name of this gateway, as records have it.'),
    gatewayVersion: z.string().min(1).describe('Version of this gateway, as records have it.'),
    clientName: z
      .string()
      .min(1)
      .optional()
      .describe('Client application in records; the gateway name by default.'),
    clientVersion: z
      .string()
      .min(1)
      .optional()
      .describe('Client version in records; the gateway version by default.'),
    environment: z
      .string()
      .min(1)
      .default('dev')
      .describe('Environment in records, such as dev, staging, prod.'),
    retention: z.string().min(1).default('standard').describe('Retention class in records.'),
    dir: z.string().min(1).optional().describe('Directory of the log; `<sec0Dir>/audit` by default.'),
    retentionDays: z.number().int().min(1).default(365).describe('Days that daily files are kept.'),
    signer: z
      .strictObject({
        keyRef: z
          .string()
          .regex(/^file:\/\//, 'expected file://PATH')
          .describe('`file://` and the path of an Ed25519 key file.'),
      })
      .optional()
      .describe('The key that signs records; not needed where code binds a signer or passes `append`.'),
    failure_mode: z
      .enum(['block', 'continue'])
      .default('block')
      .describe('`block`: no record, no answer. `continue`: serve, and count the loss.'),
    append: z
      .custom<Append>((value) => typeof value === 'function', 'expected a function (from code only)')
      .optional()
      .describe('From code only: takes each record in place of the built-in writer.'),
    intent: notYet('audit.intent'),
    presign: notYet('audit.presign'),
    raw_payloads: notYet('audit.raw_payloads'),
  })
  .describe('The signed record of every call.')

export type AuditConfig = z.output<typeof auditSchema>
