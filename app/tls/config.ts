// The configuration of TLS: key, certificates and client authentication.
import { z } from 'zod'

const refSchema = (what: string) =>
  z
    .string()
    .refine((ref) => /^(?:env:|file:\/\/)./.test(ref), {
      error: 'not a reference; accepted are file://PATH and env:NAME',
    })
    .describe(`${what}, in PEM: file://PATH or env:NAME.`)

export const tlsSchema = z
  .strictObject({
    key: refSchema('The private key'),
    cert: refSchema('The certificate, followed by its chain'),
    clientCa: refSchema(
      'The roots of client certificates; with it only clients with such a certificate may connect',
    ).optional(),
    minVersion: z
      .enum(['TLSv1.2', 'TLSv1.3'])
      .default('TLSv1.2')
      .describe('The oldest TLS version that is accepted.'),
    dirs: z
      .array(z.string().min(1))
      .min(1)
      .optional()
      .describe("Directories that may contain these files; the policy's own and sec0Dir by default."),
    checkIntervalMs: z
      .int()
      .min(10)
      .max(86_400_000)
      .default(10_000)
      .describe('Interval of the check for changed files, in milliseconds.'),
  })
  .optional()
  .describe('TLS on the port of the gateway; absent: plain HTTP.')

export type TlsConfig = NonNullable<z.output<typeof tlsSchema>>
