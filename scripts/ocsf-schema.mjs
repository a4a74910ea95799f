// Compiles the class API Activity of the Open Cybersecurity Schema Framework to a JSON Schema, which a test holds its events against:
// node scripts/ocsf-schema.mjs CHECKOUT-OF-OCSF-SCHEMA REVISION > test/fixtures/ocsf/api-activity.json
// An attribute that the framework does not know is refused, as is one whose profile the event does not name.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [, , checkout, revision] = process.argv
if (revision === undefined) {
  console.error('usage: ocsf-schema.mjs CHECKOUT REVISION')
  process.exit(2)
}

const read = (...path) => JSON.parse(readFileSync(join(checkout, ...path), 'utf8'))
const definitions = (folder) =>
  new Map(
    readdirSync(join(checkout, folder), { recursive: true })
      .filter((file) => file.endsWith('.json'))
      .map((file) => read(folder, file))
      .map((definition) => [definition.name, definition]),
  )

const [objects, events] = [definitions('objects'), definitions('events')]
const {
  attributes: dictionary,
  types: { attributes: types },
} = read('dictionary.json')

/** The attributes of a class or an object: of what it extends, of the profiles that it includes, then its own. */
function attributesOf(definition, all) {
  const { $include = [], ...own } = definition.attributes
  const inherited = definition.extends === undefined ? {} : attributesOf(all.get(definition.extends), all)
  const merged = { ...inherited }
  const add = (attributes) => {
    for (const [name, attribute] of Object.entries(attributes)) {
      const enumeration = { ...merged[name]?.enum, ...attribute.enum }
      merged[name] = { ...merged[name], ...attribute, enum: enumeration }
    }
  }
  for (const file of $include) {
    const { name: profile, attributes } = read(file)
    add(Object.fromEntries(Object.entries(attributes).map(([name, one]) => [name, { profile, ...one }])))
  }
  add(own)
  return merged
}

function objectSchema(definition, all) {
  if (definition.name === 'object') return { type: 'object' }
  const attributes = Object.entries(attributesOf(definition, all))
  const required = attributes.filter(([, one]) => one.requirement === 'required' && one.profile == null)
  const { at_least_one: anyOf, just_one: oneOf } = definition.constraints ?? {}
  const alternatives = (names) => names.map((name) => ({ required: [name] }))
  return {
    type: 'object',
    properties: Object.fromEntries(
      attributes.map(([name, attribute]) => [name, attributeSchema(name, attribute)]),
    ),
    required: required.map(([name]) => name),
    additionalProperties: false,
    ...(anyOf === undefined ? {} : { anyOf: alternatives(anyOf) }),
    ...(oneOf === undefined ? {} : { oneOf: alternatives(oneOf) }),
  }
}

function attributeSchema(name, attribute) {
  const { type, is_array: isArray } = { ...dictionary[name], ...attribute }
  const known = { ...dictionary[name]?.enum, ...attribute.enum }
  const values = Object.keys(known)
  const isNumber = baseOf(type) === 'integer' || baseOf(type) === 'number'
  const value = {
    ...(objects.has(type) ? { $ref: `#/$defs/${type}` } : scalarOf(type)),
    ...(values.length === 0 ? {} : { enum: isNumber ? values.map(Number) : values }),
  }
  return isArray === true ? { type: 'array', items: value } : value
}

const bases = {
  boolean_t: 'boolean',
  float_t: 'number',
  integer_t: 'integer',
  long_t: 'integer',
  string_t: 'string',
}

/** The type of JSON; undefined for an object and for any value. */
function baseOf(type) {
  return bases[type] ?? (types[type]?.type === undefined ? undefined : baseOf(types[type].type))
}

function scalarOf(type) {
  const { regex, max_len: maxLength, range } = types[type] ?? {}
  const base = baseOf(type)
  return {
    ...(base === undefined ? {} : { type: base }),
    ...(regex === undefined ? {} : { pattern: regex }),
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(range === undefined ? {} : { minimum: range[0], maximum: range[1] }),
  }
}

/** Every object that a schema leads to. */
function reachable(schema, found = new Map()) {
  for (const [, name] of JSON.stringify(schema).matchAll(/#\/\$defs\/(\w+)/g)) {
    if (found.has(name)) continue
    found.set(name, objectSchema(objects.get(name), objects))
    reachable(found.get(name), found)
  }
  return found
}

const activity = events.get('api_activity')
const profiled = Object.entries(attributesOf(activity, events)).filter(([, { profile }]) => profile != null)
const schema = objectSchema(activity, events)
const category =
  read('categories.json').attributes[activity.category ?? events.get(activity.extends).category].uid
const classUid = category * 1000 + activity.uid
Object.assign(schema.properties, {
  category_uid: { const: category },
  class_uid: { const: classUid },
  type_uid: { enum: schema.properties.activity_id.enum.map((one) => classUid * 100 + one) },
})
console.log(
  JSON.stringify({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `OCSF ${read('version.json').version} at ${revision}, class API Activity`,
    $comment:
      'Compiled by scripts/ocsf-schema.mjs from github.com/ocsf/ocsf-schema: copyright OCSF, Apache License 2.0.',
    ...schema,
    dependentSchemas: Object.fromEntries(
      profiled.map(([name, { profile }]) => [
        name,
        {
          properties: {
            metadata: { properties: { profiles: { contains: { const: profile } } }, required: ['profiles'] },
          },
        },
      ]),
    ),
    $defs: Object.fromEntries([...reachable(schema)].sort()),
  }),
)
