// The `notices` key of a policy.
import { noticeTypes } from '@svc/core'
import { httpUrlSchema, keyRefSchema, secureUrlError } from '@svc/core/policy'
import { z } from 'zod'

const urlSchema = httpUrlSchema.superRefine((url, context) => {
  const message = secureUrlError(url)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
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
      format: z
        .enum(['json', 'text'])
        .default('json')
        .describe(
          '`json`: the event as Standard Webhooks has it. `text`: a sentence in `{"text": …}`, as the incoming webhooks of Slack, Mattermost and Google Chat take it.',
        ),
      secretRef: keyRefSchema
        .optional()
        .describe(
          'The shared secret of the webhook (`whsec_` and base64), `env:NAME`, `file://PATH` or `command:NAME`, for signatures with HMAC-SHA256. Every notice also has a signature with the key of the log.',
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
