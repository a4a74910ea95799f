// The `notices` key of a policy.
import { noticeTypes } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { z } from 'zod'

const urlSchema = z.url().superRefine((text, context) => {
  if (!URL.canParse(text)) return
  const { protocol, hostname, username, password } = new URL(text)
  if (protocol !== 'https:' && !(protocol === 'http:' && isLoopbackHost(hostname))) {
    context.addIssue({ code: 'custom', message: 'must be https (http is accepted on a loopback address)' })
  }
  if (username !== '' || password !== '') {
    context.addIssue({ code: 'custom', message: 'must hold no user or password; use secretRef' })
  }
})

export const noticesSchema = z
  .array(
    z.strictObject({
      url: urlSchema.describe('Where notices are posted: https, or http on a loopback address.'),
      events: z
        .array(z.enum(noticeTypes))
        .min(1)
        .default([...noticeTypes])
        .describe('The events that are posted; default: all.'),
      secretRef: z
        .string()
        .regex(/^(?:env:|file:\/\/)./, 'not a key reference; accepted are env:NAME and file://PATH')
        .optional()
        .describe(
          'The shared secret of the webhook (`whsec_` and base64), `env:NAME` or `file://PATH`, for signatures with HMAC-SHA256. Every notice also has a signature with the key of the log.',
        ),
      allowPrivate: z
        .boolean()
        .default(false)
        .describe('Whether the name in the URL may have a private address.'),
    }),
  )
  .default([])
  .describe('Webhooks to which events are posted (Standard Webhooks).')

export type NoticesConfig = z.output<typeof noticesSchema>
