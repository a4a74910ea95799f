// The bodies of mandates of AP2 v0.2, as far as they are read; further members are allowed.
import { type JsonObject, membersLike } from '@svc/core/json'
import { z } from 'zod'
import { malformed } from './error.js'

/** An amount in the minor units of ISO 4217. */
const minorUnits = z.int()
const epochSeconds = z.number().min(0).optional()
const merchant = z.looseObject({ id: z.string().min(1) })
const amount = z.looseObject({ amount: minorUnits, currency: z.string().min(1) })
const instrument = z.looseObject({ id: z.string().min(1) })
const pisp = z.looseObject({ domain_name: z.string().min(1) })
const times = { iat: epochSeconds, exp: epochSeconds, nbf: epochSeconds }

const checkoutMandate = z.looseObject({
  ...times,
  vct: z.literal('mandate.checkout.1'),
  checkout_jwt: z.string().optional(),
  checkout_hash: z.string(),
})

const paymentMandate = z.looseObject({
  ...times,
  vct: z.literal('mandate.payment.1'),
  transaction_id: z.string(),
  payee: merchant,
  payment_amount: amount,
  payment_instrument: instrument,
  pisp: pisp.optional(),
  execution_date: z.string().optional(),
})

const constraints = z.array(z.looseObject({ type: z.string() })).min(1)

const openCheckoutMandate = z.looseObject({
  ...times,
  vct: z.literal('mandate.checkout.open.1'),
  constraints,
})

const openPaymentMandate = z.looseObject({
  ...times,
  vct: z.literal('mandate.payment.open.1'),
  constraints,
  payee: merchant.optional(),
  payment_amount: amount.optional(),
  payment_instrument: instrument.optional(),
  pisp: pisp.optional(),
  execution_date: z.string().optional(),
})

/** The merchant's checkout (UCP), in the payload of `checkout_jwt`. */
const checkout = z.looseObject({
  merchant: merchant.optional(),
  currency: z.string().min(1),
  line_items: z
    .array(z.looseObject({ item: z.looseObject({ id: z.string().min(1) }), quantity: z.int().min(1) }))
    .min(1)
    .max(200),
  totals: z.array(z.looseObject({ type: z.string(), amount: minorUnits })),
})

export type Checkout = z.output<typeof checkout>
export type CheckoutBody = z.output<typeof checkoutMandate>
export type PaymentBody = z.output<typeof paymentMandate>
type OpenCheckoutBody = z.output<typeof openCheckoutMandate>
export type OpenPaymentBody = z.output<typeof openPaymentMandate>
export type OpenBody = OpenCheckoutBody | OpenPaymentBody
export type Constraint = OpenBody['constraints'][number]

const bodies = z.discriminatedUnion('vct', [
  checkoutMandate,
  paymentMandate,
  openCheckoutMandate,
  openPaymentMandate,
])

/** The body of a mandate whose `vct` is exactly one of those of v0.2. */
export function parseBody(mandate: JsonObject): z.output<typeof bodies> {
  const parsed = bodies.safeParse(mandate)
  if (!parsed.success) {
    throw malformed(`the mandate does not have the form of its vct: ${firstIssue(parsed.error)}`)
  }
  const { options } = bodies
  checkNames(mandate, options.find(({ shape }) => shape.vct.value === parsed.data.vct)?.shape ?? {})
  return parsed.data
}

export function parseCheckout(payload: JsonObject): Checkout {
  const parsed = checkout.safeParse(payload)
  if (!parsed.success) throw malformed(`the checkout does not have its form: ${firstIssue(parsed.error)}`)
  checkNames(payload, checkout.shape)
  return parsed.data
}

/** A member in another case or normal form would be absent here, and present to other programs. */
function checkNames(object: JsonObject, shape: object): void {
  for (const name of Object.keys(shape)) {
    if (membersLike(object, name).some((found) => found !== name)) {
      throw malformed(`a member of the mandate differs from "${name}" only in case or form`)
    }
  }
}

export function isOpen(body: z.output<typeof bodies>): body is OpenBody {
  return body.vct === 'mandate.checkout.open.1' || body.vct === 'mandate.payment.open.1'
}

/** The message names the place in the schema, and quotes no text of the mandate. */
export function firstIssue({ issues }: z.ZodError): string {
  const [issue] = issues
  return issue === undefined ? 'unknown' : `${issue.path.join('.') || 'the object'} (${issue.code})`
}
