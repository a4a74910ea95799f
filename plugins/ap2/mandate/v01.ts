// The mandates of AP2 v0.1, which are JSON objects around a token.
import type { JsonObject } from '@svc/core/json'
import { z } from 'zod'
import { firstIssue } from './bodies.js'
import { malformed } from './fault.js'

const money = z.looseObject({ currency: z.string().min(1), value: z.number() })
const isoTime = z.string().refine((text) => Number.isFinite(Date.parse(text)))

const cart = z.looseObject({
  contents: z.looseObject({
    id: z.string().min(1),
    merchant_name: z.string().min(1),
    cart_expiry: isoTime,
    payment_request: z.looseObject({
      details: z.looseObject({
        total: z.looseObject({ amount: money }),
        display_items: z.array(z.looseObject({ label: z.string() })).default([]),
      }),
    }),
  }),
  merchant_authorization: z.string().nullish(),
})

const payment = z.looseObject({
  payment_mandate_contents: z.looseObject({
    payment_mandate_id: z.string().min(1),
    payment_details_total: z.looseObject({ amount: money }),
    payment_response: z.looseObject({ method_name: z.string().min(1) }),
  }),
  user_authorization: z.string().nullish(),
})

const intent = z.looseObject({ natural_language_description: z.string() })

export type CartV01 = z.output<typeof cart>
export type PaymentV01 = z.output<typeof payment>

type ObjectV01 =
  | { readonly kind: 'cart'; readonly value: CartV01 }
  | { readonly kind: 'payment'; readonly value: PaymentV01 }
  | { readonly kind: 'intent' }

export function parseObjectV01(object: JsonObject): ObjectV01 {
  if ('contents' in object) return { kind: 'cart', value: checked(cart, object) }
  if ('payment_mandate_contents' in object) return { kind: 'payment', value: checked(payment, object) }
  checked(intent, object)
  return { kind: 'intent' }
}

function checked<T>(schema: z.ZodType<T>, object: JsonObject): T {
  const parsed = schema.safeParse(object)
  if (parsed.success) return parsed.data
  throw malformed(`the object is no mandate of v0.1: ${firstIssue(parsed.error)}`)
}
