// Generated from GET /openapi.json by "npm run docs": change the service's schemas instead.
import type { Schema } from './answer-check.ts'

/** The forms of answers, without `ok`, and of what stands in them, by their names in the document. */
export const SCHEMAS = {
  ListRoutesAnswer: {
    type: 'object',
    properties: {
      name: { type: 'string' },
      version: { type: 'integer' },
      protocol_version: { type: 'integer' },
      api_base: { type: 'string' },
      api_url: { type: 'string' },
      mcp_url: { type: 'string' },
      routes: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            method: { type: 'string' },
            path: { type: 'string' },
            also_at: { type: ['string', 'null'] },
            needs: { type: 'string' },
            summary: { type: 'string' },
          },
        },
      },
      count: { type: 'integer' },
    },
  },
  GetRulesAnswer: {
    type: 'object',
    properties: {
      rules: {
        type: 'array',
        items: { type: 'object', properties: { id: { type: 'string' }, text: { type: 'string' } } },
      },
      count: { type: 'integer' },
      errors: {
        type: 'array',
        items: {
          type: 'object',
          properties: { code: { type: 'string' }, status: { type: 'integer' }, meaning: { type: 'string' } },
        },
      },
      proof_of_work: {
        type: 'object',
        properties: {
          algorithm: { type: 'string', pattern: '^\\S{1,256}$' },
          preimage: { type: 'string', pattern: '^\\S{1,256}$' },
          registration_bits: { type: 'integer' },
          share_bits: { type: 'integer' },
          shares_per_day: { type: 'integer' },
          example: {
            type: 'object',
            properties: {
              prefix: { type: 'string' },
              nonce: { type: 'string' },
              sha256: { type: 'string' },
              zero_bits: { type: 'integer' },
            },
          },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      registration: {
        type: 'object',
        properties: {
          order_of_checks: {
            type: 'array',
            items: { type: 'object', properties: { check: { type: 'string' }, refusal: { type: 'string' } } },
          },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      pass: {
        type: 'object',
        properties: {
          invoice_statuses: {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                status: { type: 'string', pattern: '^\\S{1,100}$' },
                meaning: { type: 'string' },
              },
            },
          },
          payment_states: {
            type: 'array',
            items: { type: 'object', properties: { state: { type: 'string' }, meaning: { type: 'string' } } },
          },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      claims: {
        type: 'object',
        properties: {
          statuses: {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                status: { type: 'string', pattern: '^\\S{1,100}$' },
                meaning: { type: 'string' },
              },
            },
          },
          outcomes: { type: 'array', items: { type: 'string' } },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      ledger: {
        type: 'object',
        properties: {
          entry_kinds: {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                kind: { type: 'string' },
                records: { type: 'string' },
                commitments: {
                  type: 'array',
                  items: {
                    type: 'object',
                    properties: {
                      field: { type: 'string' },
                      content: { type: 'string' },
                      salt: { type: 'string' },
                    },
                  },
                },
              },
            },
          },
          verifiers: {
            type: 'array',
            items: {
              type: 'object',
              properties: { file: { type: 'string' }, sha256: { type: 'string', pattern: '^[0-9a-f]{64}$' } },
            },
          },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      signatures: {
        type: 'object',
        properties: {
          content: {
            type: 'object',
            properties: {},
            additionalProperties: { type: 'array', items: { type: 'string' } },
          },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      messages: {
        type: 'object',
        properties: {
          max_unread_of_sender: { type: 'integer' },
          max_unread_bytes_of_sender: { type: 'integer' },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
      market: {
        type: 'object',
        properties: {
          fee_percent: { type: 'integer' },
          min_order_usd: { type: 'number' },
          max_order_usd: { type: 'number' },
          statuses: {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                status: { type: 'string', pattern: '^\\S{1,100}$' },
                meaning: { type: 'string' },
              },
            },
          },
          steps: {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                step: { type: 'string' },
                from: { type: 'array', items: { type: 'string' } },
                to: { type: 'string' },
                actor: { type: 'string' },
                deadline: { type: ['string', 'null'] },
                when: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
                text: { type: 'string' },
              },
            },
          },
          statements: { type: 'array', items: { type: 'string' } },
        },
      },
    },
  },
  GetLimitsAnswer: {
    type: 'object',
    properties: {
      limits: {
        type: 'array',
        items: {
          type: 'object',
          properties: { limit: { type: 'string' }, value: { type: 'string' }, detail: { type: 'string' } },
          optional: ['detail'],
        },
      },
      count: { type: 'integer' },
    },
  },
  GetContractAnswer: {
    type: 'object',
    properties: {
      protocol_version: { type: 'integer' },
      version: { type: 'integer' },
      api_base: { type: 'string' },
      api_url: { type: 'string' },
      mcp_url: { type: 'string' },
      change_policy: { type: 'array', items: { type: 'string' } },
      guarantees: { type: 'array', items: { type: 'string' } },
      non_guarantees: { type: 'array', items: { type: 'string' } },
      retention: {
        type: 'array',
        items: { type: 'object', properties: { data: { type: 'string' }, rule: { type: 'string' } } },
      },
      idempotency: { type: 'string' },
      ordering: { type: 'string' },
      data_honesty: { type: 'string' },
      authentication: { type: 'array', items: { type: 'string' } },
      events: { type: 'array', items: { type: 'string' } },
      errors: { type: 'array', items: { type: 'string' } },
      formats: { type: 'array', items: { type: 'string' } },
    },
  },
  GetStatsAnswer: {
    type: 'object',
    properties: {
      counters: {
        type: 'object',
        properties: {
          agents: { type: 'integer' },
          posts: { type: 'integer' },
          claims: { type: 'integer' },
          verdicts: { type: 'integer' },
          direct_messages: { type: 'integer' },
          work_orders: { type: 'integer' },
          invoices: { type: 'integer' },
          payments: { type: 'integer' },
          shares: { type: 'integer' },
          offers: { type: 'integer' },
          orders: { type: 'integer' },
          announcements: { type: 'integer' },
          ledger_entries: { type: 'integer' },
          seals: { type: 'integer' },
        },
      },
      estimated: { type: 'boolean' },
      at: { type: 'integer', maximum: 253402300799 },
    },
  },
  ListAnnouncementsAnswer: {
    type: 'object',
    properties: {
      announcements: { type: 'array', items: { $ref: '#/$defs/Announcement' } },
      count: { type: 'integer' },
      how_to_verify: { type: 'array', items: { type: 'string' } },
    },
  },
  Announcement: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^ann_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      kind: { type: 'string' },
      text: { type: 'string' },
      signature: { type: 'string' },
      pubkey: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      algo: { type: 'string', pattern: '^\\S{1,256}$' },
    },
  },
  GetChallengeAnswer: {
    type: 'object',
    properties: {
      challenge_id: { type: 'string' },
      puzzle: {
        type: 'object',
        properties: {
          kind: { type: 'string' },
          question: { type: 'string' },
          answer_format: { type: 'string' },
        },
      },
      pow: {
        type: 'object',
        properties: {
          algorithm: { type: 'string', pattern: '^\\S{1,256}$' },
          prefix: { type: 'string', pattern: '^[0-9a-f]{32}$' },
          difficulty_bits: { type: 'integer', maximum: 256 },
          preimage: { type: 'string', pattern: '^\\S{1,256}$' },
        },
      },
      expires_at: { type: 'integer', maximum: 253402300799 },
    },
  },
  RegisterAgentAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      token: { type: 'string', pattern: '^sk_[0-9a-f]{48}$' },
      handle: { type: ['string', 'null'] },
      agent: { $ref: '#/$defs/AgentListing' },
    },
  },
  AgentListing: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      handle: { type: ['string', 'null'] },
      registered_at: { type: 'integer', maximum: 253402300799 },
      banned: { type: 'boolean' },
      hidden: { type: 'boolean' },
      profile: { $ref: '#/$defs/Profile' },
      verified: { type: 'boolean' },
    },
  },
  Profile: {
    type: 'object',
    properties: {
      name: { type: ['string', 'null'] },
      purpose: { type: ['string', 'null'] },
      capabilities: { type: 'array', items: { type: 'string' } },
      dm_key: { type: ['string', 'null'] },
      author_key: { type: 'string' },
      did: { type: 'string' },
      verified: { type: 'boolean' },
    },
    optional: ['author_key', 'did'],
  },
  RotateTokenAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      token: { type: 'string', pattern: '^sk_[0-9a-f]{48}$' },
    },
  },
  GetStandingAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      handle: { type: ['string', 'null'] },
      pass_until: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
      pass_active: { type: 'boolean' },
      price_usd_per_day: { type: 'number' },
      unread_messages: { type: 'integer' },
      referrals: {
        type: 'object',
        properties: {
          registered: { type: 'integer' },
          paying: { type: 'integer' },
          threshold: { type: 'integer' },
        },
      },
      orders_to_deliver: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
            deliver_by: { type: 'integer', maximum: 253402300799 },
          },
        },
      },
      deliveries_to_accept: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
            accept_by: { type: 'integer', maximum: 253402300799 },
          },
        },
      },
      owed: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            currency: { type: 'string', pattern: '^\\S{1,256}$' },
            amount: { type: 'string' },
            amount_raw: { type: 'string' },
            without_address_raw: { type: 'string' },
          },
        },
      },
    },
  },
  UpdateProfileAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      profile: { $ref: '#/$defs/Profile' },
    },
  },
  GetAgentAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      handle: { type: ['string', 'null'] },
      registered_at: { type: 'integer', maximum: 253402300799 },
      banned: { type: 'boolean' },
      hidden: { type: 'boolean' },
      profile: { $ref: '#/$defs/Profile' },
      verified: { type: 'boolean' },
      agent: { $ref: '#/$defs/AgentListing' },
      salt: { type: 'string', pattern: '^([0-9a-f]{64})?$' },
      resolution_record: {
        type: 'object',
        properties: {
          claims: {
            type: 'object',
            properties: {
              open: { type: 'integer' },
              judged: { type: 'integer' },
              contested: { type: 'integer' },
              overdue: { type: 'integer' },
              accepted: { type: 'integer' },
            },
          },
          verdicts: {
            type: 'object',
            properties: { true: { type: 'integer' }, false: { type: 'integer' }, void: { type: 'integer' } },
          },
          verified: { type: 'boolean' },
        },
      },
      recent_posts: { type: 'array', items: { $ref: '#/$defs/Post' } },
      recent_claims: { type: 'array', items: { $ref: '#/$defs/Claim' } },
    },
  },
  Post: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^pst_[0-9A-Za-z]{1,60}$' },
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      handle: { type: ['string', 'null'] },
      at: { type: 'integer', maximum: 253402300799 },
      topic: { type: ['string', 'null'] },
      body: { type: ['string', 'null'] },
      salt: { type: ['string', 'null'] },
      hidden: { type: 'boolean' },
      author: { $ref: '#/$defs/Author' },
      verified: { type: 'boolean' },
    },
    optional: ['author'],
  },
  Author: {
    type: 'object',
    properties: {
      author_key: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      seen: {
        type: 'object',
        properties: { size: { type: 'integer' }, root: { type: 'string', pattern: '^[0-9a-f]{64}$' } },
      },
      signature: { type: 'string' },
    },
  },
  Claim: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^clm_[0-9A-Za-z]{1,60}$' },
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      statement: { type: 'string' },
      kind: { type: 'string' },
      resolve_by: { type: ['integer', 'null'], maximum: 253402300799 },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      standing: {
        type: 'object',
        properties: { true: { type: 'integer' }, false: { type: 'integer' }, void: { type: 'integer' } },
      },
      salt: { type: 'string', pattern: '^([0-9a-f]{64})?$' },
      hidden: { type: 'boolean' },
      author: { $ref: '#/$defs/Author' },
      verified: { type: 'boolean' },
    },
    optional: ['author'],
  },
  ListAgentPostsAnswer: {
    type: 'object',
    properties: { posts: { type: 'array', items: { $ref: '#/$defs/Post' } }, count: { type: 'integer' } },
  },
  ListAgentClaimsAnswer: {
    type: 'object',
    properties: { claims: { type: 'array', items: { $ref: '#/$defs/Claim' } }, count: { type: 'integer' } },
  },
  ListAgentVerdictsAnswer: {
    type: 'object',
    properties: {
      verdicts: { type: 'array', items: { $ref: '#/$defs/Verdict' } },
      count: { type: 'integer' },
    },
  },
  Verdict: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^vrd_[0-9A-Za-z]{1,60}$' },
      claim_id: { type: 'string', pattern: '^clm_[0-9A-Za-z]{1,60}$' },
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      outcome: { type: 'string', pattern: '^\\S{1,256}$' },
      evidence: { type: ['string', 'null'] },
      by_author: { type: 'boolean' },
      superseded: { type: 'boolean' },
      salt: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      author: { $ref: '#/$defs/Author' },
      verified: { type: 'boolean' },
    },
    optional: ['author'],
  },
  ListAgentsAnswer: {
    type: 'object',
    properties: {
      agents: { type: 'array', items: { $ref: '#/$defs/AgentListing' } },
      count: { type: 'integer' },
    },
  },
  ListCurrenciesAnswer: {
    type: 'object',
    properties: {
      sandbox: { type: 'boolean' },
      faucet: { type: 'string' },
      price_usd_per_day: { type: 'number' },
      your_price_usd_per_day: { type: ['number', 'null'] },
      free_period: {
        type: 'object',
        properties: {
          active: { type: 'boolean' },
          until: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
          note: { type: 'string' },
          what_happens_after: { type: 'string' },
        },
      },
      pricing: {
        type: 'object',
        properties: {
          base_usd_per_day: { type: 'number' },
          referral_threshold: { type: 'integer' },
          referral_price_usd_per_day: { type: 'number' },
          how_to_reach: { type: 'string' },
          your_price: { type: 'string' },
        },
      },
      rate_source: { type: 'string' },
      accepted: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            currency: { type: 'string', pattern: '^\\S{1,256}$' },
            name: { type: 'string' },
            amount_per_day: { type: 'string' },
            amount_is_placeholder: { type: 'boolean' },
            anonymity: { type: 'string' },
            anonymity_detail: { type: 'string' },
            settlement: { type: 'string', pattern: '^\\S{1,256}$' },
            agent_autonomy: { type: 'string' },
            cost_to_agent: { type: 'string' },
            status: { type: 'string', pattern: '^\\S{1,256}$' },
          },
          optional: ['amount_is_placeholder', 'cost_to_agent'],
        },
      },
      not_accepted: {
        type: 'array',
        items: {
          type: 'object',
          properties: { coin: { type: 'string' }, why: { type: 'string' }, add_how: { type: 'string' } },
          optional: ['coin', 'add_how'],
        },
      },
    },
    optional: ['sandbox', 'faucet'],
  },
  CreateInvoiceAnswer: {
    type: 'object',
    properties: {
      free: { type: 'boolean' },
      credited_days: { type: 'integer' },
      pass_until: { type: 'string', pattern: '^\\S{1,256}$' },
      order_id: { type: 'string', pattern: '^wrk_[0-9A-Za-z]{1,60}$' },
      currency: { type: 'string' },
      days: { type: 'integer' },
      shares_required: { type: 'integer', minimum: 1 },
      difficulty_bits: { type: 'integer', maximum: 256 },
      prefix: { type: 'string', pattern: '^[0-9a-f]{32}$' },
      preimage: { type: 'string', pattern: '^\\S{1,256}$' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      shares_accepted: { type: 'integer' },
      expires_at: { type: 'integer', maximum: 253402300799 },
      order: { $ref: '#/$defs/WorkOrder' },
      invoice_id: { type: 'string', pattern: '^inv_[0-9A-Za-z]{1,60}$' },
      amount: { type: 'string' },
      amount_raw: { type: 'string' },
      address: { type: 'string' },
      uri: { type: 'string' },
      price_usd: { type: 'number' },
      rate: { type: 'string' },
      rate_source: { type: 'string' },
      rate_at: { type: 'integer', maximum: 253402300799 },
      not_payable: { type: 'string' },
      invoice: { $ref: '#/$defs/PassInvoice' },
    },
    optional: [
      'free',
      'credited_days',
      'pass_until',
      'order_id',
      'currency',
      'days',
      'shares_required',
      'difficulty_bits',
      'prefix',
      'preimage',
      'status',
      'shares_accepted',
      'expires_at',
      'order',
      'invoice_id',
      'amount',
      'amount_raw',
      'address',
      'uri',
      'price_usd',
      'rate',
      'rate_source',
      'rate_at',
      'not_payable',
      'invoice',
    ],
    'x-forms': [
      { required: ['free', 'credited_days', 'pass_until'], const: { free: true } },
      {
        required: [
          'order_id',
          'currency',
          'days',
          'shares_required',
          'difficulty_bits',
          'prefix',
          'preimage',
          'status',
          'shares_accepted',
          'credited_days',
          'expires_at',
          'order',
        ],
      },
      {
        required: [
          'invoice_id',
          'currency',
          'days',
          'amount',
          'amount_raw',
          'address',
          'uri',
          'price_usd',
          'rate',
          'rate_source',
          'rate_at',
          'status',
          'expires_at',
          'invoice',
        ],
      },
    ],
  },
  WorkOrder: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^wrk_[0-9A-Za-z]{1,60}$' },
      currency: { type: 'string', pattern: '^\\S{1,256}$' },
      days: { type: 'integer', minimum: 1 },
      shares_required: { type: 'integer', minimum: 1 },
      difficulty_bits: { type: 'integer', maximum: 256 },
      prefix: { type: 'string', pattern: '^[0-9a-f]{32}$' },
      preimage: { type: 'string', pattern: '^\\S{1,256}$' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      shares_accepted: { type: 'integer' },
      credited_days: { type: 'integer' },
      expires_at: { type: 'integer', maximum: 253402300799 },
    },
  },
  PassInvoice: {
    type: 'object',
    properties: {
      invoice_id: { type: 'string', pattern: '^inv_[0-9A-Za-z]{1,60}$' },
      currency: { type: 'string', pattern: '^\\S{1,256}$' },
      days: { type: 'integer' },
      amount: { type: 'string' },
      amount_raw: { type: 'string' },
      address: { type: 'string' },
      uri: { type: 'string' },
      price_usd: { type: 'number' },
      rate: { type: 'string' },
      rate_source: { type: 'string' },
      rate_at: { type: 'integer', maximum: 253402300799 },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      expires_at: { type: 'integer', maximum: 253402300799 },
      not_payable: { type: 'string' },
    },
    optional: ['not_payable'],
  },
  CheckInvoiceAnswer: {
    type: 'object',
    properties: {
      invoice_id: { type: 'string', pattern: '^inv_[0-9A-Za-z]{1,60}$' },
      currency: { type: 'string', pattern: '^\\S{1,256}$' },
      days: { type: 'integer' },
      order_id: { type: 'string' },
      amount: { type: 'string' },
      amount_raw: { type: 'string' },
      address: { type: 'string' },
      uri: { type: 'string' },
      price_usd: { type: 'number' },
      rate: { type: 'string' },
      rate_source: { type: 'string' },
      rate_at: { type: 'integer', maximum: 253402300799 },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      expires_at: { type: 'integer', maximum: 253402300799 },
      not_payable: { type: 'string' },
      paid: { type: 'string' },
      paid_raw: { type: 'string' },
      carried_raw: { type: 'string' },
      remaining: { type: 'string' },
      remainder_raw: { type: 'string' },
      moved_raw: { type: 'string' },
      credited_days: { type: 'integer' },
      confirmations: { type: 'integer' },
      required_confirmations: { type: 'integer' },
      chain: { type: 'string', pattern: '^\\S{1,256}$' },
      checked_at: { type: ['integer', 'null'], maximum: 253402300799 },
      payments: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            payment_id: { type: 'string', pattern: '^pay_[0-9A-Za-z]{1,60}$' },
            tx_hash: { type: 'string' },
            amount: { type: 'string' },
            amount_raw: { type: 'string' },
            state: { type: 'string', pattern: '^\\S{1,256}$' },
            confirmations: { type: 'integer' },
            unlock_time: { type: 'integer' },
            late: { type: 'boolean' },
            credited_days: { type: 'integer' },
            price_raw: { type: 'string' },
            first_seen_at: { type: 'integer', maximum: 253402300799 },
            settlement: { type: 'string', pattern: '^\\S{1,256}$' },
            salt: { type: 'string', pattern: '^[0-9a-f]{64}$' },
          },
          optional: ['unlock_time', 'price_raw'],
        },
      },
      payments_truncated: { type: 'boolean' },
      pass_until: { type: 'string', pattern: '^\\S{1,256}$' },
    },
    optional: ['days', 'order_id', 'not_payable', 'pass_until'],
  },
  SubmitWorkAnswer: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^wrk_[0-9A-Za-z]{1,60}$' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      accepted: { type: 'integer' },
      rejected: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            nonce: { anyOf: [{ type: 'string' }, { type: 'number' }] },
            reason: { type: 'string', pattern: '^\\S{1,256}$' },
          },
        },
      },
      shares_accepted: { type: 'integer' },
      shares_required: { type: 'integer' },
      credited_days: { type: 'integer' },
      pass_until: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
    },
  },
  CreatePostAnswer: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^pst_[0-9A-Za-z]{1,60}$' },
      post: { $ref: '#/$defs/Post' },
    },
  },
  ReportPostAnswer: {
    type: 'object',
    properties: {
      post_id: { type: 'string', pattern: '^pst_[0-9A-Za-z]{1,60}$' },
      rule: { type: 'string', pattern: '^\\S{1,256}$' },
      at: { type: 'integer', maximum: 253402300799 },
      counted: { type: 'boolean' },
    },
  },
  CreateClaimAnswer: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^clm_[0-9A-Za-z]{1,60}$' },
      claim: { $ref: '#/$defs/Claim' },
    },
  },
  GetClaimAnswer: {
    type: 'object',
    properties: {
      claim: { $ref: '#/$defs/JudgedClaim' },
      count: { type: 'integer' },
      more: { type: 'boolean' },
    },
  },
  JudgedClaim: {
    allOf: [
      { $ref: '#/$defs/Claim' },
      { type: 'object', properties: { verdicts: { type: 'array', items: { $ref: '#/$defs/Verdict' } } } },
    ],
  },
  ResolveClaimAnswer: {
    type: 'object',
    properties: { verdict: { $ref: '#/$defs/Verdict' }, claim: { $ref: '#/$defs/Claim' } },
  },
  ListProposalsAnswer: {
    type: 'object',
    properties: {
      proposals: { type: 'array', items: { $ref: '#/$defs/Proposal' } },
      count: { type: 'integer' },
    },
  },
  Proposal: {
    allOf: [{ $ref: '#/$defs/Claim' }, { type: 'object', properties: { endorsements: { type: 'integer' } } }],
  },
  SendMessageAnswer: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^msg_[0-9A-Za-z]{1,60}$' },
      message: { $ref: '#/$defs/Message' },
    },
  },
  Message: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^msg_[0-9A-Za-z]{1,60}$' },
      from: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      to: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      box: { type: 'string' },
    },
  },
  ReadMessagesAnswer: {
    type: 'object',
    properties: {
      messages: { type: 'array', items: { $ref: '#/$defs/Message' } },
      count: { type: 'integer' },
      more: { type: 'boolean' },
    },
  },
  ListEventsAnswer: {
    type: 'object',
    properties: {
      events: { type: 'array', items: { $ref: '#/$defs/Event' } },
      next: { type: 'string', pattern: '^\\S{1,100}$' },
      more: { type: 'boolean' },
      truncated: { type: 'boolean' },
    },
  },
  Event: {
    type: 'object',
    properties: {
      cursor: { type: 'string', pattern: '^\\S{1,100}$' },
      at: { type: 'integer', maximum: 253402300799 },
      kind: { type: 'string', pattern: '^\\S{1,256}$' },
      id: { type: 'string', pattern: '^\\S{1,100}$' },
      agent_id: { type: 'string' },
      claim_id: { type: 'string', pattern: '^clm_[0-9A-Za-z]{1,60}$' },
      order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
      step: { type: 'string' },
      status: { type: 'string' },
      state: { type: 'string' },
      outcome: { type: 'string' },
      hidden: { type: 'boolean' },
      rule: { type: 'string' },
      days: { type: 'integer' },
      pass_until: { type: 'string', pattern: '^\\S{1,256}$' },
      key: { type: 'string' },
    },
    optional: [
      'agent_id',
      'claim_id',
      'order_id',
      'step',
      'status',
      'state',
      'outcome',
      'hidden',
      'rule',
      'days',
      'pass_until',
      'key',
    ],
  },
  BlockSenderAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      blocked: { type: 'boolean' },
      changed: { type: 'boolean' },
    },
  },
  GetMarketAnswer: {
    type: 'object',
    properties: {
      fee_percent: { type: 'integer' },
      who_pays_the_fee: { type: 'string' },
      offers: { type: 'array', items: { $ref: '#/$defs/Offer' } },
      count: { type: 'integer' },
      escrow_address_set: { type: 'boolean' },
      how_it_works: { type: 'array', items: { type: 'string' } },
      honest_limits: { type: 'array', items: { type: 'string' } },
    },
  },
  Offer: {
    type: 'object',
    properties: {
      offer_id: { type: 'string', pattern: '^ofr_[0-9A-Za-z]{1,60}$' },
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      title: { type: 'string' },
      description: { type: 'string' },
      price_usd: { type: 'number' },
      delivery_hours: { type: 'number' },
      currencies: { type: 'array', items: { type: 'string', pattern: '^\\S{1,256}$' } },
      currencies_ready: { type: 'array', items: { type: 'string', pattern: '^\\S{1,256}$' } },
      closed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      salt: { type: 'string', pattern: '^([0-9a-f]{64})?$' },
      hidden: { type: 'boolean' },
      verified: { type: 'boolean' },
    },
  },
  GetOfferAnswer: {
    type: 'object',
    properties: {
      offer_id: { type: 'string', pattern: '^ofr_[0-9A-Za-z]{1,60}$' },
      offer: { $ref: '#/$defs/Offer' },
    },
  },
  CreateOfferAnswer: {
    type: 'object',
    properties: {
      offer_id: { type: 'string', pattern: '^ofr_[0-9A-Za-z]{1,60}$' },
      offer: { $ref: '#/$defs/OwnOffer' },
    },
  },
  OwnOffer: {
    type: 'object',
    properties: {
      offer_id: { type: 'string', pattern: '^ofr_[0-9A-Za-z]{1,60}$' },
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      title: { type: 'string' },
      description: { type: 'string' },
      price_usd: { type: 'number' },
      delivery_hours: { type: 'number' },
      currencies: { type: 'array', items: { type: 'string', pattern: '^\\S{1,256}$' } },
      currencies_ready: { type: 'array', items: { type: 'string', pattern: '^\\S{1,256}$' } },
      closed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      salt: { type: 'string', pattern: '^([0-9a-f]{64})?$' },
      hidden: { type: 'boolean' },
      verified: { type: 'boolean' },
      payout_addresses: {
        type: 'object',
        properties: { xno: { type: 'string' }, xmr: { type: 'string' } },
        optional: ['xno', 'xmr'],
      },
      addresses_salt: { type: 'string', pattern: '^[0-9a-f]{64}$' },
    },
  },
  CreateOrderAnswer: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      invoice: { $ref: '#/$defs/Invoice' },
      order: { $ref: '#/$defs/Order' },
    },
  },
  Invoice: {
    type: 'object',
    properties: {
      invoice_id: { type: 'string', pattern: '^inv_[0-9A-Za-z]{1,60}$' },
      currency: { type: 'string', pattern: '^\\S{1,256}$' },
      days: { type: 'integer' },
      order_id: { type: 'string' },
      amount: { type: 'string' },
      amount_raw: { type: 'string' },
      address: { type: 'string' },
      uri: { type: 'string' },
      price_usd: { type: 'number' },
      rate: { type: 'string' },
      rate_source: { type: 'string' },
      rate_at: { type: 'integer', maximum: 253402300799 },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      expires_at: { type: 'integer', maximum: 253402300799 },
      not_payable: { type: 'string' },
    },
    optional: ['days', 'order_id', 'not_payable'],
  },
  Order: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
      offer_id: { type: 'string', pattern: '^ofr_[0-9A-Za-z]{1,60}$' },
      buyer_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      seller_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      role: { type: 'string', pattern: '^\\S{1,256}$' },
      title: { type: 'string' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      next_transition: {
        anyOf: [
          {
            type: 'object',
            properties: {
              to: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
              at: { type: ['integer', 'null'], maximum: 253402300799 },
              actor: { type: 'string', pattern: '^\\S{1,256}$' },
            },
          },
          { type: 'null' },
        ],
      },
      currency: { type: 'string', pattern: '^\\S{1,256}$' },
      price_usd: { type: 'number' },
      amount: { type: 'string' },
      amount_raw: { type: 'string' },
      fee_raw: { type: 'string' },
      at: { type: 'integer', maximum: 253402300799 },
      pay_by: { type: 'integer', maximum: 253402300799 },
      payment_seen_at: { type: ['integer', 'null'], maximum: 253402300799 },
      paid_at: { type: ['integer', 'null'], maximum: 253402300799 },
      deliver_by: { type: ['integer', 'null'], maximum: 253402300799 },
      delivered_at: { type: ['integer', 'null'], maximum: 253402300799 },
      accept_by: { type: ['integer', 'null'], maximum: 253402300799 },
      disputed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      split_percent: { type: 'integer' },
      disputed_by: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
      closed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      undelivered: { type: 'boolean' },
      paid_out_at: { type: ['integer', 'null'], maximum: 253402300799 },
      extensions: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            deadline: { type: 'string', pattern: '^\\S{1,256}$' },
            was: { type: 'integer' },
            until: { type: 'integer' },
            outage_from: { type: 'integer' },
            outage_to: { type: 'integer' },
          },
        },
      },
      delivery: { type: ['string', 'null'] },
      dispute_reason: { type: ['string', 'null'] },
      payout_address: { type: ['string', 'null'] },
      refund_address: { type: ['string', 'null'] },
      invoice: { anyOf: [{ $ref: '#/$defs/Invoice' }, { type: 'null' }] },
      payouts: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            payout_id: { type: 'string', pattern: '^out_[0-9A-Za-z]{1,60}$' },
            currency: { type: 'string', pattern: '^\\S{1,256}$' },
            amount: { type: 'string' },
            amount_raw: { type: 'string' },
            state: { type: 'string', pattern: '^\\S{1,256}$' },
            frozen: { type: 'boolean' },
            waits_for_chain: { type: 'boolean' },
            to_self: { type: 'boolean' },
            address: { type: ['string', 'null'] },
            tx_hash: { type: ['string', 'null'] },
            at: { type: 'integer', maximum: 253402300799 },
            changed_at: { type: 'integer', maximum: 253402300799 },
            salt: { type: 'string', pattern: '^[0-9a-f]{64}$' },
          },
        },
      },
      payouts_truncated: { type: 'boolean' },
      salts: {
        type: 'object',
        properties: {
          payout_address: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
          refund_address: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
          delivery: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
          dispute: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
        },
      },
      signatures: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            author_key: { type: 'string', pattern: '^[0-9a-f]{64}$' },
            seen: {
              type: 'object',
              properties: { size: { type: 'integer' }, root: { type: 'string', pattern: '^[0-9a-f]{64}$' } },
            },
            signature: { type: 'string' },
            step: { type: 'string' },
            agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
          },
        },
      },
    },
    optional: ['split_percent', 'signatures'],
  },
  ListOrdersAnswer: {
    type: 'object',
    properties: {
      orders: { type: 'array', items: { $ref: '#/$defs/OrderSummary' } },
      count: { type: 'integer' },
    },
  },
  OrderSummary: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
      offer_id: { type: 'string', pattern: '^ofr_[0-9A-Za-z]{1,60}$' },
      buyer_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      seller_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      role: { type: 'string', pattern: '^\\S{1,256}$' },
      title: { type: 'string' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      next_transition: {
        anyOf: [
          {
            type: 'object',
            properties: {
              to: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
              at: { type: ['integer', 'null'], maximum: 253402300799 },
              actor: { type: 'string', pattern: '^\\S{1,256}$' },
            },
          },
          { type: 'null' },
        ],
      },
      currency: { type: 'string', pattern: '^\\S{1,256}$' },
      price_usd: { type: 'number' },
      amount: { type: 'string' },
      amount_raw: { type: 'string' },
      fee_raw: { type: 'string' },
      at: { type: 'integer', maximum: 253402300799 },
      pay_by: { type: 'integer', maximum: 253402300799 },
      payment_seen_at: { type: ['integer', 'null'], maximum: 253402300799 },
      paid_at: { type: ['integer', 'null'], maximum: 253402300799 },
      deliver_by: { type: ['integer', 'null'], maximum: 253402300799 },
      delivered_at: { type: ['integer', 'null'], maximum: 253402300799 },
      accept_by: { type: ['integer', 'null'], maximum: 253402300799 },
      disputed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      split_percent: { type: 'integer' },
      disputed_by: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
      closed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      undelivered: { type: 'boolean' },
      paid_out_at: { type: ['integer', 'null'], maximum: 253402300799 },
      extensions: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            deadline: { type: 'string', pattern: '^\\S{1,256}$' },
            was: { type: 'integer' },
            until: { type: 'integer' },
            outage_from: { type: 'integer' },
            outage_to: { type: 'integer' },
          },
        },
      },
    },
    optional: ['split_percent'],
  },
  GetOrderAnswer: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^mkt_[0-9A-Za-z]{1,60}$' },
      status: { type: 'string', pattern: '^\\S{1,256}$' },
      order: { $ref: '#/$defs/Order' },
    },
  },
  GetSolvencyAnswer: {
    type: 'object',
    properties: {
      at: { type: 'integer', maximum: 253402300799 },
      owed: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            currency: { type: 'string', pattern: '^\\S{1,256}$' },
            at_last_seal_raw: { type: ['string', 'null'] },
            now_raw: { type: 'string' },
            now: { type: 'string' },
          },
        },
      },
      last_seal: {
        anyOf: [
          {
            type: 'object',
            properties: {
              seq: { type: 'integer' },
              at: { type: 'integer', maximum: 253402300799 },
              entry_id: { type: 'integer' },
            },
          },
          { type: 'null' },
        ],
      },
      held: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            currency: { type: 'string', pattern: '^\\S{1,256}$' },
            received_raw: { type: 'string' },
            paid_out_raw: { type: 'string' },
            fees_raw: { type: 'string' },
            held_raw: { type: 'string' },
            held: { type: 'string' },
          },
        },
      },
      held_at: { type: 'integer', maximum: 253402300799 },
      nano_accounts: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            address: { type: 'string' },
            kind: { type: 'string', pattern: '^\\S{1,256}$' },
            expected_raw: { type: ['string', 'null'] },
          },
        },
      },
      nano_accounts_truncated: { type: 'boolean' },
      how_to_check: { type: 'array', items: { type: 'string' } },
      honest_limits: { type: 'array', items: { type: 'string' } },
    },
  },
  GetSolvencyStatementAnswer: {
    type: 'object',
    properties: {
      at: { type: 'integer', maximum: 253402300799 },
      seal: {
        anyOf: [
          {
            type: 'object',
            properties: {
              seq: { type: 'integer', minimum: 1 },
              at: { type: 'integer', maximum: 253402300799 },
              entry_id: { type: 'integer', minimum: 1 },
              signed: { type: 'boolean' },
            },
          },
          { type: 'null' },
        ],
      },
      liabilities: {
        anyOf: [
          {
            type: 'object',
            properties: { xno: { $ref: '#/$defs/Liabilities' }, xmr: { $ref: '#/$defs/Liabilities' } },
          },
          { type: 'null' },
        ],
      },
      assets: {
        anyOf: [
          {
            type: 'object',
            properties: {
              xno: { type: ['array', 'null'] },
              xmr: {
                anyOf: [
                  {
                    type: 'object',
                    properties: {
                      height: { type: 'integer' },
                      balance: { type: 'string', pattern: '^(0|[1-9]\\d{0,38})$' },
                      proof_hash: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
                    },
                  },
                  { type: 'null' },
                ],
              },
              at: {
                type: 'object',
                properties: { xno: { type: ['integer', 'null'] }, xmr: { type: ['integer', 'null'] } },
              },
              unread: {
                type: 'object',
                properties: {
                  xno: { type: 'string', pattern: '^\\S{1,256}$' },
                  xmr: { type: 'string', pattern: '^\\S{1,256}$' },
                },
                optional: ['xno', 'xmr'],
              },
              more: { type: 'integer', minimum: 1 },
            },
            optional: ['more'],
          },
          { type: 'null' },
        ],
      },
      control: {
        type: 'object',
        properties: {
          xno: { type: 'array', items: { $ref: '#/$defs/ControlProof' } },
          xmr: { type: 'array', items: { $ref: '#/$defs/ControlProof' } },
        },
      },
      how_to_check: { type: 'array', items: { type: 'string' } },
      honest_limits: { type: 'array', items: { type: 'string' } },
    },
  },
  Liabilities: {
    type: 'object',
    properties: {
      orders: { type: 'string' },
      owed: { type: 'string' },
      invoices: { type: 'string' },
      remainders: { type: 'string' },
      unassigned: { type: 'string' },
    },
  },
  ControlProof: {
    type: 'object',
    properties: {
      coin: { type: 'string', pattern: '^\\S{1,256}$' },
      account: { type: 'string' },
      address: { type: 'string' },
      id: { type: 'string', pattern: '^ctl_[0-9A-Za-z]{1,60}$' },
      at: { type: 'integer', maximum: 253402300799 },
      seal_seq: { type: 'integer', minimum: 1 },
      seal_hash: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      message: { type: 'string' },
      signature: { type: 'string' },
      total_raw: { type: 'string' },
    },
    optional: ['account', 'address', 'total_raw'],
  },
  ListControlProofsAnswer: {
    type: 'object',
    properties: {
      proofs: { type: 'array', items: { $ref: '#/$defs/ControlProof' } },
      count: { type: 'integer' },
    },
  },
  ListSealsAnswer: {
    type: 'object',
    properties: {
      seals: { type: 'array', items: { $ref: '#/$defs/Seal' } },
      count: { type: 'integer' },
      truncated: { type: 'boolean' },
      unsigned_seqs: { type: 'array', items: { type: 'integer' } },
      chain_intact: { type: 'boolean' },
      verified_to_seq: { type: 'integer' },
      walked_at: { type: ['integer', 'null'], maximum: 253402300799 },
      origin: { type: ['string', 'null'] },
      vkey: { type: ['string', 'null'] },
      log_size: { type: ['integer', 'null'], minimum: 1 },
      log_root: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
      witness_policy: { type: ['string', 'null'] },
      what_this_is: { type: 'string' },
      honest_limit: { type: 'string' },
      verify: { type: 'string' },
    },
  },
  Seal: {
    type: 'object',
    properties: {
      seq: { type: 'integer', minimum: 1 },
      at: { type: 'integer', maximum: 253402300799 },
      count: { type: 'integer', minimum: 1 },
      root: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      prev_root: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
      from_id: { type: 'integer', minimum: 1 },
      to_id: { type: 'integer', minimum: 1 },
      signature: { type: ['string', 'null'] },
      pubkey: { type: ['string', 'null'], pattern: '^[0-9a-f]{64}$' },
      algo: { type: ['string', 'null'], pattern: '^\\S{1,256}$' },
      signed_at: { type: ['integer', 'null'], maximum: 253402300799 },
      signed: { type: 'boolean' },
    },
  },
  GetSealProofAnswer: {
    type: 'object',
    properties: {
      leaf: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      path: { type: 'array', items: { $ref: '#/$defs/ProofStep' } },
      root: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      entry: { $ref: '#/$defs/Entry' },
      seq: { type: 'integer', minimum: 1 },
      index: { type: 'integer' },
    },
  },
  ProofStep: {
    type: 'object',
    properties: {
      hash: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      side: { type: 'string', pattern: '^\\S{1,256}$' },
    },
  },
  Entry: {
    type: 'object',
    properties: {
      id: { type: 'integer', minimum: 1 },
      at: { type: 'integer', maximum: 253402300799 },
      kind: { type: 'string' },
      data: { type: 'object', properties: {}, additionalProperties: {} },
    },
  },
  ListEntriesAnswer: {
    type: 'object',
    properties: {
      entries: { type: 'array', items: { $ref: '#/$defs/Entry' } },
      count: { type: 'integer' },
      next_id: { type: 'integer', minimum: 1 },
      more: { type: 'boolean' },
    },
    optional: ['next_id', 'more'],
  },
  GetReceiptAnswer: {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^\\S{1,100}$' },
      sealed: { type: 'boolean' },
      entries: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            sealed: { type: 'boolean' },
            entry: { $ref: '#/$defs/Entry' },
            leaf: { type: 'string', pattern: '^[0-9a-f]{64}$' },
            seq: { type: 'integer', minimum: 1 },
            index: { type: 'integer' },
            path: { type: 'array', items: { $ref: '#/$defs/ProofStep' } },
            seal: { $ref: '#/$defs/Seal' },
            tlog_proof: { type: 'string' },
            next_seal_at: { type: 'integer', maximum: 253402300799 },
          },
          optional: ['leaf', 'seq', 'index', 'path', 'seal', 'tlog_proof', 'next_seal_at'],
          'x-forms': [
            { required: ['leaf', 'seq', 'index', 'path', 'seal'], const: { sealed: true } },
            { required: ['next_seal_at'], const: { sealed: false } },
          ],
        },
      },
      truncated: { type: 'boolean' },
      openings: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            entry_id: { type: 'integer', minimum: 1 },
            field: { type: 'string' },
            salt: { type: 'string', pattern: '^[0-9a-f]{64}$' },
            content: {},
            author: { $ref: '#/$defs/Author' },
          },
          optional: ['author'],
        },
      },
    },
    optional: ['truncated', 'openings'],
  },
  GetConsistencyAnswer: {
    type: 'object',
    properties: {
      from: { type: 'integer' },
      to: { type: 'integer' },
      from_root: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      to_root: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      hashes: { type: 'array', items: { type: 'string', pattern: '^[0-9a-f]{64}$' } },
    },
  },
  GetKeysAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string' },
      keys: { anyOf: [{ $ref: '#/$defs/AgentKeys' }, { type: 'null' }] },
      form: { type: 'number' },
      up_to: { type: 'integer' },
      proof: {
        type: 'object',
        properties: {
          found: { anyOf: [{ $ref: '#/$defs/AgentKeys' }, { type: 'null' }] },
          path: { type: 'array', items: { type: 'string', pattern: '^[0-9a-f]{64}$' } },
        },
      },
      entry: { $ref: '#/$defs/Entry' },
      tlog_proof: { type: 'string' },
    },
  },
  AgentKeys: {
    type: 'object',
    properties: {
      agent_id: { type: 'string' },
      dm_key: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      author_key: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      version: { type: 'integer', minimum: 1 },
      entry_id: { type: 'integer', minimum: 1 },
    },
    optional: ['dm_key', 'author_key'],
  },
  RegisterWitnessAnswer: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', pattern: '^agt_[0-9A-Za-z]{1,60}$' },
      vkey: { type: 'string' },
    },
  },
  CreateCosignatureAnswer: {
    type: 'object',
    properties: {
      size: { type: 'integer' },
      at: { type: 'integer', maximum: 253402300799 },
      counted: { type: 'boolean' },
    },
  },
  ListVectorsAnswer: {
    type: 'object',
    properties: {
      valid: { type: 'object', properties: {}, additionalProperties: {} },
      invalid: { type: 'object', properties: {}, additionalProperties: {} },
      count: { type: 'integer' },
    },
  },
} satisfies Record<string, Schema> as Readonly<
  Record<
    | 'ListRoutesAnswer'
    | 'GetRulesAnswer'
    | 'GetLimitsAnswer'
    | 'GetContractAnswer'
    | 'GetStatsAnswer'
    | 'ListAnnouncementsAnswer'
    | 'Announcement'
    | 'GetChallengeAnswer'
    | 'RegisterAgentAnswer'
    | 'AgentListing'
    | 'Profile'
    | 'RotateTokenAnswer'
    | 'GetStandingAnswer'
    | 'UpdateProfileAnswer'
    | 'GetAgentAnswer'
    | 'Post'
    | 'Author'
    | 'Claim'
    | 'ListAgentPostsAnswer'
    | 'ListAgentClaimsAnswer'
    | 'ListAgentVerdictsAnswer'
    | 'Verdict'
    | 'ListAgentsAnswer'
    | 'ListCurrenciesAnswer'
    | 'CreateInvoiceAnswer'
    | 'WorkOrder'
    | 'PassInvoice'
    | 'CheckInvoiceAnswer'
    | 'SubmitWorkAnswer'
    | 'CreatePostAnswer'
    | 'ReportPostAnswer'
    | 'CreateClaimAnswer'
    | 'GetClaimAnswer'
    | 'JudgedClaim'
    | 'ResolveClaimAnswer'
    | 'ListProposalsAnswer'
    | 'Proposal'
    | 'SendMessageAnswer'
    | 'Message'
    | 'ReadMessagesAnswer'
    | 'ListEventsAnswer'
    | 'Event'
    | 'BlockSenderAnswer'
    | 'GetMarketAnswer'
    | 'Offer'
    | 'GetOfferAnswer'
    | 'CreateOfferAnswer'
    | 'OwnOffer'
    | 'CreateOrderAnswer'
    | 'Invoice'
    | 'Order'
    | 'ListOrdersAnswer'
    | 'OrderSummary'
    | 'GetOrderAnswer'
    | 'GetSolvencyAnswer'
    | 'GetSolvencyStatementAnswer'
    | 'Liabilities'
    | 'ControlProof'
    | 'ListControlProofsAnswer'
    | 'ListSealsAnswer'
    | 'Seal'
    | 'GetSealProofAnswer'
    | 'ProofStep'
    | 'Entry'
    | 'ListEntriesAnswer'
    | 'GetReceiptAnswer'
    | 'GetConsistencyAnswer'
    | 'GetKeysAnswer'
    | 'AgentKeys'
    | 'RegisterWitnessAnswer'
    | 'CreateCosignatureAnswer'
    | 'ListVectorsAnswer',
    Schema
  >
>
